"""The line about code in which the row check found no relation between rows."""

from __future__ import annotations

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
