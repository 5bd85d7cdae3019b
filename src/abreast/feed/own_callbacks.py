"""The user's own callbacks that run around batches: a source or a worker must see their changes at once.

Keras's own callbacks, and ours, change nothing that a source or a model's Python code reads.
"""

from __future__ import annotations

from typing import Any

import keras

from abreast.keras_private.modules import is_keras_or_ours, module_of

_TRAIN_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
_OTHER_HOOKS = ("on_test_batch_begin", "on_test_batch_end", "on_predict_batch_begin", "on_predict_batch_end")


def listed(callbacks: Any) -> list[Any]:
    """The callbacks of a `fit`, whose argument is None, one callback, a sequence, or a `CallbackList`."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = callbacks.callbacks
    return [each for each in keras.tree.flatten(callbacks) if each is not None]


def acting_on_batches(callbacks: Any) -> tuple[Any, ...]:
    """The user's callbacks with a hook of their own around batches of training, validation or prediction.

    `callbacks` is what `fit` accepts: None, one callback, a sequence, or a `CallbackList`. A `LambdaCallback` is included
    if it got a function for batches.
    """
    return tuple(callback for callback in listed(callbacks) if _acts_on_batches(callback))


def save_on_batches(callbacks: Any) -> bool:
    """Whether one of Keras's callbacks saves the model's state between two batches of an epoch."""
    savers = (keras.callbacks.ModelCheckpoint, keras.callbacks.BackupAndRestore)
    return any(isinstance(each, savers) and each.save_freq != "epoch" for each in listed(callbacks))


def _acts_on_batches(callback: Any) -> bool:
    return any(_is_users(callback, name) for name in (*_TRAIN_HOOKS, *_OTHER_HOOKS))


def _is_users(callback: Any, name: str) -> bool:
    """Whether a hook runs code from outside Keras and abreast."""
    if name in vars(callback):  # a LambdaCallback stores its functions as attributes
        return not is_keras_or_ours(module_of(vars(callback)[name]))
    owner = next((kind for kind in type(callback).__mro__ if name in vars(kind)), None)
    return owner is not None and not is_keras_or_ours(owner.__module__)
