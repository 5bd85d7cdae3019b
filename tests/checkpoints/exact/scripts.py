"""Scripts of the campaign: what calls `fit`, and how often. Each returns its models by name and its histories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

EPOCHS = 3


@dataclass
class Kit:
    """What a script is made of. `model` makes and places one; `callbacks` are made once, `fit_arguments` for each `fit`."""

    model: Callable[..., Any]
    place: Callable[[Any], Any]
    fit_arguments: Callable[[], dict[str, Any]]
    callbacks: Callable[[], list[Any]]


Ran = tuple[Mapping[str, Any], list[Any]]


def one_fit(kit: Kit) -> Ran:
    model = kit.place(kit.model())
    return {"model": model}, [model.fit(**_arguments(kit))]


def several_steps(kit: Kit) -> Ran:
    model = kit.place(kit.model(steps_per_execution=2))
    return {"model": model}, [model.fit(**_arguments(kit))]


def two_phases(kit: Kit) -> Ran:
    """Train the head, then all."""
    model = kit.place(kit.model())
    for layer in model.layers[:-1]:
        layer.trainable = False
    _compile_again(model, keras.optimizers.SGD(0.01))
    histories = [model.fit(**{**_arguments(kit), "epochs": 1})]
    for layer in model.layers:
        layer.trainable = True
    _compile_again(model, keras.optimizers.Adam(0.01))
    return {"model": model}, [*histories, model.fit(**_arguments(kit))]


def folds(kit: Kit) -> Ran:
    """Three models, one after the other; the results of each decide nothing."""
    models, histories = {}, []
    for fold in range(3):
        models[f"fold {fold}"] = model = kit.place(kit.model())
        histories.append(model.fit(**{**_arguments(kit), "epochs": 1}))
    return models, histories


def loop_of_fits(kit: Kit) -> Ran:
    """An epoch per `fit`, with the learning rate by the script from the loss of the last one."""
    model = kit.place(kit.model())
    histories = []
    for epoch in range(3):
        histories.append(model.fit(**{**_arguments(kit), "initial_epoch": epoch, "epochs": epoch + 1}))
        if isinstance(model.optimizer.learning_rate, keras.Variable):
            model.optimizer.learning_rate = 0.01 / (1.0 + float(histories[-1].history["loss"][-1]))
        np.random.random()
    return {"model": model}, histories


def two_optimizers(kit: Kit) -> Ran:
    """A step of the user with an optimizer for each half of the model."""
    from tests.checkpoints.exact.two_optimizers import compiled

    model = kit.place(compiled(kit.model()))
    return {"model": model}, [model.fit(**_arguments(kit))]


def _arguments(kit: Kit) -> dict[str, Any]:
    return {"epochs": EPOCHS, "verbose": 0, **kit.fit_arguments(), "callbacks": kit.callbacks()}


def _compile_again(model: Any, optimizer: Any) -> None:
    model.compile(optimizer, "mse", metrics=None)
