"""Warnings point at a line of the user's, not at one of abreast, Keras or a framework."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from abreast import users_line
from tests.harness.client import Workers


def test_what_a_filter_hides_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A difference must not go unnoticed because a script begins with `warnings.filterwarnings("ignore")`."""
    hiding: list[dict[str, Any]] = [{}, {"category": UserWarning}, {"message": "a diff"}, {"module": __name__}]
    showing: list[dict[str, Any]] = [
        {"category": RuntimeWarning},
        {"message": "other"},
        {"module": "other"},
        {"lineno": 1},
    ]
    for filters, is_hidden in ((hiding, True), (showing, False)):
        for each in filters:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warnings.filterwarnings("ignore", **each)
                users_line.warn("a difference", at_least_tell=True)
            assert (len(caught), capsys.readouterr().err) == (
                (0, "abreast: a difference\n") if is_hidden else (1, "")
            ), each


def fit_what_is_warned_of() -> dict[str, list[str]]:
    """In a worker: the files that the warnings of each fit point at."""
    import warnings

    import keras
    import numpy as np

    import abreast

    class OwnStep(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x: object) -> object:
            return self.dense(x)

        def train_step(self, *arguments: object) -> object:
            return super().train_step(*arguments)

    def frozen() -> Any:
        model = keras.Sequential([keras.layers.Dense(1)])
        model.trainable = False
        return model

    x = np.random.default_rng(0).normal(size=(10, 4)).astype("float32")
    models: dict[str, Callable[[], Any]] = {
        "own step": OwnStep,
        "frozen": frozen,
        "dropout": lambda: keras.Sequential([keras.layers.Dropout(0.5), keras.layers.Dense(1)]),
        "staging": lambda: keras.Sequential([keras.layers.Dense(1)]),
    }
    files = {}
    for name, make in models.items():
        model = make()
        model.compile("sgd", "mse")
        abreast.parallelize(model, prefetch_bytes=1 if name == "staging" else None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(x, x[:, :1], batch_size=5, verbose=0)
        # What NumPy deprecates in Keras is Keras's.
        files[name] = sorted({each.filename for each in caught if each.category is UserWarning})
    return files


@pytest.mark.in_turn
def test_warnings_point_at_the_users_line(workers: Workers) -> None:
    """Of the frozen model, Keras on JAX says nothing; there, steps and dropout are exact."""
    said = {"staging"} if workers.backend == "jax" else {"staging", "dropout", "own step", "frozen"}
    files = workers.abreast.run(fit_what_is_warned_of)
    assert files == {name: [__file__] if name in said else [] for name in ("own step", "frozen", "dropout", "staging")}


def fit_sources_that_ignore_shuffle() -> list[tuple[str, str]]:
    """In a worker: the files and messages of the warnings about `shuffle`, which Keras gives in `get_data_adapter`."""
    import warnings

    import keras
    import numpy as np

    import abreast

    class Batches(keras.utils.PyDataset):  # type: ignore[misc]
        def __getitem__(self, index: int) -> object:
            return np.ones((4, 2), "float32"), np.ones((4, 1), "float32")

        @property
        def num_batches(self) -> None:
            return None

    def generator() -> object:
        while True:
            yield np.ones((4, 2), "float32"), np.ones((4, 1), "float32")

    found = []
    for source in (generator(), Batches()):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(source, steps_per_epoch=2, shuffle=True, verbose=0)
        found += [(each.filename, str(each.message)) for each in caught if "shuffle" in str(each.message)]
    return found


@pytest.mark.in_turn
def test_keras_warnings_of_a_source_point_at_the_users_line(workers: Workers) -> None:
    found = workers.abreast.run(fit_sources_that_ignore_shuffle)
    assert len(found) == 2
    assert all(where == __file__ for where, _ in found), found
