"""Parts of a model that replicas cannot share as one device would: an error or one warning names them."""

from __future__ import annotations

import functools
from typing import Any

import keras
from keras import ops

from abreast.errors import ModelError
from abreast.exact.layers import moving_statistics
from abreast.exact.losses import leaves_rows, without_reduction
from abreast.exact.row_check import is_checked, settled_states
from abreast.exact.users_code import may_change
from abreast.exact.warn_once import warn_once
from abreast.keras_private.modules import KERAS


def check_layers(model: Any) -> None:
    """Raise `ModelError` for a part that replicas cannot share; warn once of layers whose own state is averaged."""
    own, settled = [], settled_states(model)
    if leaves_rows(model):
        raise without_reduction(model)
    for layer in model._flatten_layers():
        if getattr(layer, "stateful", False) and isinstance(layer, keras.layers.RNN):
            raise ModelError(
                f"{layer.name} is stateful: it keeps a state for each row of a batch, and each replica gets different rows",
                "train it on one device, or with KERAS_BACKEND=jax",
            )
        if getattr(layer, "activity_regularizer", None) is not None and _sums_activity():
            raise ModelError(
                f"{layer.name} has an activity regularizer, which Keras {keras.__version__} sums over the rows of a batch: "
                "replicas would weight it by their share of the rows",
                "use Keras 3.15, which takes the mean, or train with KERAS_BACKEND=jax or on one device",
            )
        if any(getattr(each, "overwrite_with_gradient", False) for each in layer._trainable_variables):
            raise ModelError(
                f"{layer.name} has weights whose gradients are their new values (overwrite_with_gradient, as in float8), and "
                "replicas would add these up",
                "train it with KERAS_BACKEND=jax or on one device",
            )
        if isinstance(layer, keras.layers.TFSMLayer) and (layer.trainable_weights or layer.call_training_endpoint):
            raise ModelError(
                f"{layer.name} calls functions of a SavedModel, which have one copy of their variables: every replica would "
                "change it in training",
                "freeze it (trainable=False, and no call_training_endpoint), or train it on one device",
            )
        known = settled | set(map(id, moving_statistics(layer)))
        states = [each for each in layer._non_trainable_variables if id(each) not in known]
        if states and not _is_of_keras(layer) and (_runs_functions(layer) or may_change(model, layer, states)):
            own.append(f"{layer.name} ({', '.join(variable.name for variable in states)})")
    if own:
        unseen = " that their calls did not change on the first batch" if is_checked(model) else ""
        warn_once(
            model,
            "own state",
            f"layers of your own keep state{unseen}: {'; '.join(own)}. Each replica changes it by its own rows; after a step "
            "it is the mean over the rows if it has a floating type, else the first replica's. A running mean is then "
            "what one device computes; a sum or a count is not",
        )


def _is_of_keras(layer: Any) -> bool:
    return type(layer).__module__.startswith(KERAS) and not _runs_functions(layer)


def _runs_functions(layer: Any) -> bool:
    """Whether the user's functions return new states, to which Keras assigns: `JaxLayer` and `FlaxLayer`."""
    return isinstance(layer, keras.layers.JaxLayer)


@functools.cache
def _sums_activity() -> bool:
    """Whether an activity regularizer is a sum over rows, as before Keras 3.15, and not a mean."""
    layer = keras.layers.ActivityRegularization(l1=1.0, name="abreast_sums_activity")
    layer(ops.ones((2, 1)))
    return float(layer.losses[0]) > 1.5
