"""The user's code on TensorFlow that could let the processes of a job train apart, or draw the same random numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.installed import skip_unless_installed
from tests.launched.job import result, start_all
from tests.launched.test_jax import HEAD

pytestmark = [pytest.mark.tensorflow, pytest.mark.in_turn]

_SCRIPT = (
    HEAD
    + """
import tensorflow as tf
found = {}
def attempt(name, model, *callbacks, **options):
    try:
        model.fit(x, x[:, :1], batch_size=30, verbose=0, callbacks=callbacks, **options)
        found[name] = "no error"
    except AbreastError as error:
        found[name] = f"{type(error).__name__}: {error}"
class SetsOnRank1(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if rank == 1 and epoch == self.params["epochs"] - 1:
            self.model.layers[0].bias.assign(self.model.layers[0].bias + 1.0)
class Evaluates(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.evaluate(x, x[:, :1], batch_size=60, verbose=0)
class Measures(keras.callbacks.Callback):
    seconds = keras.metrics.Mean()
    def on_train_batch_end(self, batch, logs=None):
        self.seconds.update_state(rank)
trained = made()
attempt("its own metric", trained, Measures())
attempt("before the first step", trained, SetsOnRank1())
attempt("after a call", made(), Evaluates(), SetsOnRank1(), epochs=2)
drawn = []
def note(value):
    drawn.append(float(value))
    return value
class Draws(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, x):
        return self.dense(x)
    def train_step(self, data):
        tf.numpy_function(note, [tf.random.normal(())], tf.float32)
        return super().train_step(data)
keras.utils.set_random_seed(3)
with scope:
    draws = Draws()
    draws.compile("sgd", "mse")
draws.fit(x, x[:, :1], batch_size=30, verbose=0)
found["drawn"] = drawn[-1]
class Scaled(keras.layers.Layer):
    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function
    def call(self, x):
        return self.function(x)
    def get_config(self):
        return {**super().get_config(), "function": self.function, "tags": {"one", "two", "three", "four"}}
with scope:
    scaled = keras.Sequential([keras.Input((4,)), Scaled(lambda x: x * 2), keras.layers.Dense(1)])
    scaled.compile("sgd", "mse")
attempt("a function in get_config", scaled)
print(json.dumps(found))
"""
)


@pytest.fixture(scope="module")
def found() -> list[Any]:
    """What each of two processes found."""
    skip_unless_installed("tensorflow")
    return [result(process) for process in start_all(_SCRIPT, 2, backend="tensorflow")]


@pytest.mark.parametrize("name", ["before the first step", "after a call"])
def test_a_variable_that_a_callback_sets_on_one_rank_is_an_error(found: list[Any], name: str) -> None:
    for each in found:
        assert "/bias was set to other values on rank 1 than on rank 0" in each[name]


def test_a_metric_of_a_callback_may_differ(found: list[Any]) -> None:
    assert {each["its own metric"] for each in found} == {"no error"}


def test_a_function_or_set_in_a_get_config_is_the_same_in_all_processes(found: list[Any]) -> None:
    assert {each["a function in get_config"] for each in found} == {"no error"}


def test_tensorflows_own_random_operations_draw_apart(found: list[Any]) -> None:
    assert found[0]["drawn"] != found[1]["drawn"]
