"""One package per framework, behind one interface (`contract.py`).

Only modules in here import a framework, except for the rivals in `bench`. Importing this module loads neither Keras nor a
framework, because worker processes start here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from abreast.errors import BackendError

if TYPE_CHECKING:
    from abreast.backend.contract import Backend


def current_backend() -> Backend:
    """The backend that Keras was imported with; raises `BackendError` for an unknown one."""
    import keras

    name = keras.backend.backend()
    if name not in ("jax", "tensorflow", "torch"):
        raise BackendError(
            f"Keras runs on {name!r}, which cannot train on several devices",
            "set KERAS_BACKEND to jax, tensorflow or torch before keras is imported",
        )
    backend: Backend = importlib.import_module(f"abreast.backend.{name}.backend").BACKEND
    return backend
