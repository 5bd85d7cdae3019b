"""The optimizer classes that apply gradients, and their tables of variables.

The keys of the tables are identities of variables. Since 3.16, another table states which variables decay; before that, an
optimizer decides this at each step and keeps it in a cache.
"""

from __future__ import annotations

from typing import Any

from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.optimizers.loss_scale_optimizer import LossScaleOptimizer

__all__ = ["OF_WEIGHT_DECAY", "BaseOptimizer", "LossScaleOptimizer", "averages", "identify_variables"]

# Attributes of an optimizer from `exclude_from_weight_decay`: the cache is used up to 3.15, the last one since 3.16.
OF_WEIGHT_DECAY = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_cache", "_weight_decay_by_var_key")


def averages(optimizer: Any) -> list[tuple[Any, Any]]:
    """The variables of an optimizer that is built with `use_ema`, each with its average; empty for any other optimizer."""
    pairs = zip(optimizer._trainable_variables, getattr(optimizer, "_model_variables_moving_average", ()), strict=False)
    return [(variable, average) for variable, average in pairs if average is not None]


def identify_variables(optimizer: Any) -> None:
    """Make the tables of an optimizer again, after the identities of its variables have changed."""
    variables = getattr(optimizer, "_trainable_variables", [])
    attributes = vars(optimizer)
    keys = [optimizer._var_key(variable) for variable in variables]
    attributes["_trainable_variables_indices"] = {key: index for index, key in enumerate(keys)}
    places = attributes.get("_var_to_optimizer_idx")  # of a `MultiOptimizer`, in the order of the variables
    if places is not None:
        attributes["_var_to_optimizer_idx"] = dict(zip(keys, places.values(), strict=True))
    if hasattr(optimizer, "_is_excluded_from_weight_decay"):
        decays = list(attributes.get("_weight_decay_by_var_key", {}).values())  # in the order of the variables
        if len(decays) != len(keys):
            decays = [not optimizer._is_excluded_from_weight_decay(variable) for variable in variables]
        attributes["_weight_decay_by_var_key"] = dict(zip(keys, decays, strict=True))
