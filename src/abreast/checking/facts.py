"""Facts about a model and its calls that can make devices differ: layers, losses, callbacks, sources.

Each side gathers them while it runs, as plain data. `reasons.py` draws the conclusions.
"""

from __future__ import annotations

from typing import Any

import keras

from abreast.feed.own_callbacks import acting_on_batches

RATES = ("rate", "stddev", "dropout", "recurrent_dropout")


def is_own(kind: type) -> bool:
    """True if a class is the user's: neither Keras's nor ours nor built-in."""
    return kind.__module__.partition(".")[0] not in ("keras", "abreast", "builtins")


def layers_of(model: Any) -> list[Any]:
    return list(model._flatten_layers(include_self=True))


def is_random(layer: Any) -> bool:
    """True if a layer draws random numbers for its rows in training."""
    if any(_rate(layer, name) for name in RATES):
        return True
    return type(layer).__name__.startswith(("Random", "CutMix", "MixUp", "AugMix", "RandAugment")) or (
        is_own(type(layer)) and any(isinstance(each, keras.random.SeedGenerator) for each in vars(layer).values())
    )


def _rate(layer: Any, name: str) -> bool:
    value = getattr(layer, name, None)
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def model_facts(model: Any) -> dict[str, Any]:
    """Names of the layers of each relevant kind, of the user's own methods and metrics, types, and the model's variables."""
    layers = layers_of(model)
    inner = [layer for layer in layers if layer is not model]
    return {
        "random": sorted({layer.name for layer in inner if is_random(layer)}),
        "batch_norm": sorted({layer.name for layer in inner if type(layer).__name__ == "BatchNormalization"}),
        "own_layers": sorted(
            {layer.name for layer in inner if is_own(type(layer)) or type(layer).__name__ == "Lambda"}
        ),
        "own_methods": [name for name in ("train_step", "test_step", "compute_loss") if is_own(_owner(model, name))],
        "own_metrics": sorted({metric.name for metric in model.metrics if is_own(type(metric))}),
        "dtypes": sorted({str(layer.compute_dtype) for layer in layers if layer.weights}),
        "variables": _owners(layers),
    }


def _owner(model: Any, method: str) -> type:
    return next(kind for kind in type(model).__mro__ if method in vars(kind))


def _owners(layers: list[Any]) -> dict[str, list[Any]]:
    """Facts by variable: its layer's name, whether the layer is the user's, and whether the variable is trained."""
    found = {}
    for layer in layers:
        for variable in [*layer._trainable_variables, *layer._non_trainable_variables]:
            found[variable.path] = [layer.name, is_own(type(layer)), bool(variable.trainable)]
    return found


def call_facts(callbacks: Any, source: Any) -> dict[str, Any]:
    """The user's callbacks that act on batches, and whether the source is not arrays."""
    return {
        "callbacks": sorted({type(each).__name__ for each in acting_on_batches(callbacks)}),
        "own_source": not (hasattr(source, "shape") or isinstance(source, dict | list | tuple)),
    }
