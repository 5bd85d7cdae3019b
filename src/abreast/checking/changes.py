"""Deliberate changes of a script, the same on both sides: no random layers, float64, and weights moved by one rounding."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np

from abreast.checking.compare import coarsest
from abreast.checking.facts import RATES, is_random, layers_of
from abreast.keras_private.dtypes import keep_float64
from abreast.stderr import tell


def compute_in_float64() -> None:
    """Make float64 Keras's type, regardless of the script's policy."""
    keep_float64()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    for owner in (keras.config, keras.mixed_precision):
        for name in ("set_dtype_policy", "set_global_policy"):
            if hasattr(owner, name):
                setattr(owner, name, _ignore_policy)


def _ignore_policy(policy: Any) -> None:
    tell(f"--float64 ignores the dtype policy {policy}")


def switch_off_random(model: Any) -> None:
    """Set every rate of Keras's random layers to zero. Layers that augment images pass them on unchanged."""
    for layer in layers_of(model):
        if not is_random(layer):
            continue
        for name in RATES:
            if isinstance(getattr(layer, name, None), float):
                setattr(layer, name, 0.0)
        if type(layer).__name__.startswith("Random"):
            layer.call = functools.partial(layer.call, training=False)


def move_by_a_rounding(model: Any, random: np.random.Generator) -> None:
    """Multiply every trained number by 1, or by 1 plus or minus a rounding in the coarsest type of a layer, at random."""
    share = coarsest(str(layer.compute_dtype) for layer in layers_of(model)).number
    for variable in model.trainable_variables:
        value = np.array(variable)
        moved = value * (1 + share * random.integers(-1, 2, value.shape))
        variable.assign(moved.astype(value.dtype))
