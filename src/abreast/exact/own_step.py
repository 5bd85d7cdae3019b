"""The rule for a step that the user wrote: its results are means over a replica's rows, weighted by the number of rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras

from abreast.exact.warn_once import warn_once
from abreast.keras_private.modules import KERAS, module_of


def overrides_step(model: Any, kind: str = "train") -> bool:
    """Whether the user wrote the model's `train_step` (or `test_step`, `predict_step`), in its class or on the object."""
    return is_users(model, f"{kind}_step")


def is_users(model: Any, name: str) -> bool:
    """Whether a method of a model is not that of Keras's trainers, but the user's, or that of a model such as `Distiller`."""
    module = module_of(getattr(model, name))
    of_kerass_model = (
        kind for kind in type(model).__mro__ if kind.__module__ == module and issubclass(kind, keras.Model)
    )
    return not module.startswith(KERAS) or any(of_kerass_model)


def call_in_step(kind: str, model: Any) -> Callable[[Any], Any]:
    """The call of a model in Keras's step of a kind."""
    return functools.partial(model, training=kind == "train") if model._call_has_training_arg else model


def compiled_losses(model: Any) -> list[Any]:
    """The losses of `compile` that are built."""
    compiled = getattr(model, "_compile_loss", None)
    return [entry[1] for entry in (compiled._flat_losses or () if compiled is not None else ())]


def _has_sums(model: Any) -> bool:
    """Whether a compiled loss is not a mean over rows."""
    reductions = {getattr(loss, "reduction", None) for loss in compiled_losses(model)}
    return not reductions.isdisjoint({"sum", "mean_with_sample_weight"})


def state_rule_of_own_step(kind: str, model: Any, counts: tuple[int, ...]) -> None:
    """Warn, once per model, how a user's own step is counted if its shards differ in length or a loss is not a mean."""
    if kind == "predict" or not overrides_step(model, kind):
        return
    if len(set(counts)) == 1 and not _has_sums(model):
        return
    warn_once(
        model,
        "own step",
        f"{type(model).__name__} has its own {kind}_step, and a batch of {sum(counts)} rows is cut into shards of "
        f"{', '.join(map(str, counts))}: each replica's gradients and logs are weighted by its rows, which is what one "
        "device computes if the losses are means over rows",
    )
