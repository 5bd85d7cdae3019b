"""One package per framework, behind one interface (`contract.py`).

Only modules in here import a framework, except for the rivals in `bench`. Importing this module loads neither Keras nor a
framework, because worker processes start here.
"""

from abreast.backend.registry import current_backend

__all__ = ["current_backend"]
