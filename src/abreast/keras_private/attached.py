"""The mask that Keras attaches to a tensor, and on TensorFlow the logits behind a softmax or a sigmoid.

Keras's crossentropies on TensorFlow compute from the logits instead of the probabilities. They find them by an attribute of the
probabilities, or by the operation that made these (`keras.src.backend.tensorflow.nn` of Keras 3.13 to 3.16). Up to 3.15
`keras.src.backend` has the functions for masks too; 3.16 has them here only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import backend, ops
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask

_LOGITS = "_keras_logits"
_ACTIVATIONS = {"Softmax": ops.softmax, "Sigmoid": ops.sigmoid}  # by TensorFlow's name of the operation


def of_rows(leaf: Any, change: Callable[[Any], Any], axis: int = 0) -> Any:
    """`change(leaf)`, which selects or joins rows along `axis`, with its mask and its logits changed likewise."""
    changed, mask = _with_logits(leaf, change), get_keras_mask(leaf)
    if mask is not None and axis < len(mask.shape):
        set_keras_mask(changed, change(mask))
    return changed


def keep(leaf: Any, other: Any) -> None:
    """Give `other`, which has the values of `leaf`, the mask and the logits of `leaf`."""
    keep_mask(leaf, other)
    if (logits := getattr(leaf, _LOGITS, None)) is not None:
        setattr(other, _LOGITS, logits)


def keep_mask(leaf: Any, other: Any) -> None:
    if (mask := get_keras_mask(leaf)) is not None:
        set_keras_mask(other, mask)


def has_any(leaf: Any) -> bool:
    return get_keras_mask(leaf) is not None or _has_logits(leaf)


def _with_logits(leaf: Any, change: Callable[[Any], Any]) -> Any:
    if not _has_logits(leaf):
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


def _has_logits(leaf: Any) -> bool:
    return backend.backend() == "tensorflow" and (hasattr(leaf, _LOGITS) or _operation(leaf) is not None)


def _operation(leaf: Any) -> Any:
    """The softmax or sigmoid that made a tensor of a graph; None for other tensors."""
    operation: Any = getattr(leaf, "op", None)  # none outside graphs
    return operation if getattr(operation, "type", None) in _ACTIVATIONS and len(operation.inputs) == 1 else None
