"""The line about code in which the row check found no relation between rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.client import Workers


def lines(kind: str) -> list[str]:
    """In a worker: what abreast prints while it trains and evaluates a model with code of `kind`, without its first line."""
    import keras
    import numpy as np

    import abreast
    from tests import relating
    from tests.feed.order_bodies import said

    keras.utils.clear_session()  # of names

    class Scaled(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: object) -> object:
            return 2 * x  # type: ignore[operator]

    class Steps(keras.Sequential):  # type: ignore[misc]
        def train_step(self, *arguments: object) -> object:
            return super().train_step(*arguments)

    layer = {"kerass": keras.layers.Dense(5), "relating": relating.Centered()}.get(kind, Scaled())
    model = (Steps if kind == "step" else keras.Sequential)([keras.Input((5,)), layer, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, devices=2)
    rows = np.random.default_rng(0).normal(size=(32, 5)).astype("float32")
    with said() as text:
        for _ in range(2):
            model.fit(rows, rows[:, :1], batch_size=8, verbose=0)
        model.evaluate(rows, rows[:, :1], verbose=0)
    return [line for line in text.getvalue().splitlines() if "no relation between rows" in line]


@pytest.mark.parametrize(
    ("kind", "names"), [("kerass", ""), ("relating", ""), ("own", "Scaled"), ("step", "Scaled, Steps.train_step")]
)
def test_code_without_relations_is_named_once(workers: Workers, kind: str, names: str) -> None:
    found = workers.abreast.run(lines, kind=kind)
    assert len(found) == bool(names and workers.backend != "jax"), found
    assert all(f"relation between rows in {names}, from 7 rows" in line for line in found)


def warnings_of_dying_units() -> list[str]:
    """In a worker: the warnings of a training in which, from its second step on, an added sum and a mean for a metric are 0."""
    import warnings

    import keras
    import numpy as np

    import abreast

    class Adding(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.mean = keras.metrics.Mean(name="mean")

        def call(self, x: object) -> object:
            self.add_loss(0.01 * keras.ops.sum(x))
            self.mean.update_state(keras.ops.mean(x))
            return x

    class Kill(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            self.model.layers[0].bias.assign(-100 * np.ones(4))

    relu = keras.layers.Dense(4, activation="relu")
    model = keras.Sequential([keras.Input((5,)), relu, Adding(), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    abreast.parallelize(model, devices=2)
    rows = np.random.default_rng(0).normal(size=(64, 5)).astype("float32")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, rows[:, :1], batch_size=8, verbose=0, callbacks=[Kill()])
    return [str(each.message) for each in caught if "rows" in str(each.message)]


def test_zeros_do_not_change_what_the_first_check_has_found(workers: Workers) -> None:
    if workers.backend == "jax":
        pytest.skip("a step sees all rows, and needs no check")
    assert workers.abreast.run(warnings_of_dying_units) == []


def warnings_of_a_counter() -> list[str]:
    """In a worker: the warnings about a layer that counts its calls in a context variable, which has its default before."""
    import contextvars
    import warnings

    import keras
    import numpy as np

    import abreast

    calls = contextvars.ContextVar("calls", default=0)

    class Warming(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any, training: bool = False) -> Any:
            if training:
                calls.set(calls.get() + 1)
            return x * min(1.0, calls.get() / 8)

    model = keras.Sequential([keras.Input((5,)), Warming(), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    abreast.parallelize(model, devices=2)
    rows = np.random.default_rng(0).normal(size=(16, 5)).astype("float32")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, rows[:, :1], batch_size=8, verbose=0)
    return [str(each.message) for each in caught if "calls" in str(each.message)]


def test_a_counter_with_a_default_counts_anew_in_each_run_of_the_check(workers: Workers) -> None:
    assert workers.abreast.run(warnings_of_a_counter) == []
