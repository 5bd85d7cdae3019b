"""A package per framework behind one seam (`contract.py`). The only place that imports a framework.

Importing this loads neither Keras nor a framework: worker processes start here.
"""

from abreast.backend.registry import current_backend

__all__ = ["current_backend"]
