"""A package per framework behind one seam (`contract.py`). The only place that imports a framework.

Importing this loads neither Keras nor a framework: worker processes start here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from abreast.errors import BackendError

if TYPE_CHECKING:
    from abreast.backend.contract import Backend


def current_backend() -> Backend:
    """The backend that Keras was imported with; raises `BackendError` for one that we do not know."""
    import keras

    name = keras.backend.backend()
    if name not in ("jax", "tensorflow", "torch"):
        raise BackendError(
            f"Keras runs on {name!r}, which cannot train on several devices",
            "set KERAS_BACKEND to jax, tensorflow or torch before keras is imported",
        )
    backend: Backend = importlib.import_module(f"abreast.backend.{name}.backend").BACKEND
    return backend
