"""Seeding like `keras.utils.set_random_seed`, without loading TensorFlow."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from keras.src.utils import rng_utils

_module: Any = rng_utils


def set_random_seed(seed: int) -> None:
    """Seed Python, NumPy, Keras and the frameworks that this process has loaded.

    Keras would import TensorFlow to seed it, if that is installed: 5 s and 300 MB in every process.
    """
    plain = _module.tf
    if "tensorflow" not in sys.modules:
        _module.tf = SimpleNamespace(available=False)
    try:
        rng_utils.set_random_seed(seed)
    finally:
        _module.tf = plain
