"""Keras's state of each thread: scopes, the default device, the global seed generator."""

from __future__ import annotations

from keras.src.backend.common.global_state import (
    GLOBAL_STATE_TRACKER,
    get_global_attribute,
    set_global_attribute,
)
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR

__all__ = ["GLOBAL_SEED_GENERATOR", "GLOBAL_STATE_TRACKER", "get_global_attribute", "set_global_attribute"]
