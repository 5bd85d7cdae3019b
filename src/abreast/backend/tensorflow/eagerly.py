"""`tf.config.run_functions_eagerly(True)`, with which every function under `tf.function` runs as Python, and so every step.

Plain Keras meets it at each step, so it may change between two calls and within one.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import tensorflow as tf

from abreast.backend.contract import StepFunction
from abreast.keras_private.tensorflow import TensorFlowTrainer


def functions_run_eagerly() -> bool:
    return bool(tf.config.functions_run_eagerly())


def install(placed: Container[Any]) -> None:
    """Let `run_eagerly` of `placed` models say whether their steps do run eagerly."""
    plain = TensorFlowTrainer.run_eagerly

    def run_eagerly(model: Any) -> bool:
        return bool(plain.fget(model)) or (functions_run_eagerly() and model in placed)

    TensorFlowTrainer.run_eagerly = property(run_eagerly, plain.fset)


def for_each_way(make: Callable[[], StepFunction]) -> StepFunction:
    """The steps that `make` returns: some for graphs, and others while functions run eagerly."""
    made: dict[bool, StepFunction] = {}

    def now() -> StepFunction:
        is_eager = functions_run_eagerly()
        if is_eager not in made:
            made[is_eager] = make()
        return made[is_eager]

    return StepFunction(lambda *args: now().run(*args), lambda *args: now().for_keras(*args))
