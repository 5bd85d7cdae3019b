"""The logits behind a softmax or a sigmoid: on TensorFlow, Keras's crossentropies compute from them instead of the probabilities.

Keras finds them by an attribute of the probabilities, or by the operation that made them, so a copy of their rows needs both. In
`keras.src.backend.tensorflow.nn` of Keras 3.13 to 3.16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import backend, ops

_LOGITS = "_keras_logits"
_ACTIVATIONS = {"Softmax": ops.softmax, "Sigmoid": ops.sigmoid}  # by TensorFlow's name of the operation


def with_logits(leaf: Any, change: Callable[[Any], Any]) -> Any:
    """`change(leaf)`, which selects or joins rows, with the logits of `leaf` changed likewise."""
    if not has_logits(leaf):
        return change(leaf)
    logits, operation = getattr(leaf, _LOGITS, None), _operation(leaf)
    if operation is not None and (logits is None or logits is operation.inputs[0]):
        changed = _ACTIVATIONS[operation.type](change(operation.inputs[0]))  # one exchange instead of two
        if logits is None:
            delattr(changed, _LOGITS)
    else:
        changed = change(leaf)
        setattr(changed, _LOGITS, change(logits))
    return changed


def keep_logits(leaf: Any, other: Any) -> None:
    """Give `other`, which has the values of `leaf`, the logits of `leaf`."""
    if (logits := getattr(leaf, _LOGITS, None)) is not None:
        setattr(other, _LOGITS, logits)


def has_logits(leaf: Any) -> bool:
    """Whether Keras computes a crossentropy of these probabilities from their logits."""
    return backend.backend() == "tensorflow" and (hasattr(leaf, _LOGITS) or _operation(leaf) is not None)


def _operation(leaf: Any) -> Any:
    """The softmax or sigmoid that made a tensor of a graph; None for other tensors."""
    operation: Any = getattr(leaf, "op", None)  # none outside graphs
    return operation if getattr(operation, "type", None) in _ACTIVATIONS and len(operation.inputs) == 1 else None
