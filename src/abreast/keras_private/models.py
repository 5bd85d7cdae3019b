"""Functional models and their graphs, and the classes that Keras saves."""

from __future__ import annotations

from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.models.functional import Functional
from keras.src.models.model import inject_functional_model_class
from keras.src.ops.function import Function, make_node_key
from keras.src.ops.node import Node
from keras.src.saving.keras_saveable import KerasSaveable
from keras.src.utils.backend_utils import DynamicBackend

__all__ = [
    "DynamicBackend",
    "Function",
    "Functional",
    "KerasSaveable",
    "KerasTensor",
    "Node",
    "inject_functional_model_class",
    "make_node_key",
]
