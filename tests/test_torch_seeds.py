"""The same seed and number of devices give the same noise again on PyTorch, for any generator that a layer uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness.client import Workers

SOURCES = ("python", "numpy", "torch", "keras", "dropout")


@pytest.fixture(autouse=True)
def _on_torch(workers: Workers) -> None:
    if workers.backend != "torch":
        pytest.skip("devices draw in processes of their own on PyTorch only")


@pytest.mark.parametrize("source", SOURCES)
def test_a_seed_repeats_a_training_in_one_process(workers: Workers, source: str) -> None:
    one, other, another_seed = workers.abreast.run(trained, source=source, seeds=(3, 3, 4))
    np.testing.assert_array_equal(one, other)
    assert np.abs(one - another_seed).max() > 1e-4


@pytest.mark.parametrize("source", SOURCES)
def test_a_seed_set_between_fits_repeats_the_second(workers: Workers, source: str) -> None:
    one, other, another_seed = workers.abreast.run(trained_on, source=source, seeds=(5, 5, 6))
    np.testing.assert_array_equal(one, other)
    assert np.abs(one - another_seed).max() > 1e-4


def test_a_model_that_is_sent_anew_draws_other_numbers(workers: Workers) -> None:
    """Each rank would begin its noise again if its generator were seeded as at the first time."""
    first, second = workers.abreast.run(noise_before_and_after_a_freeze)
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize("source", SOURCES[:-1])
def test_a_state_that_is_put_back_repeats_a_training(workers: Workers, source: str) -> None:
    one, other, without_generators = workers.abreast.run(trained_from_a_state, source=source)
    np.testing.assert_array_equal(one, other)
    assert np.abs(one - without_generators).max() > 1e-4


def test_a_seed_set_after_a_state_was_put_back_holds(workers: Workers) -> None:
    one, other = workers.abreast.run(trained_after_a_state)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("change", ["freeze", "seed", "another layer"])
def test_a_state_read_after_a_change_and_before_its_step_repeats_a_training(workers: Workers, change: str) -> None:
    one, other = workers.abreast.run(trained_from_a_state_after, change=change)
    np.testing.assert_array_equal(one, other)


def _noisy(source: str) -> Any:
    import random

    import keras
    import torch

    draws = {
        "python": lambda x: x * (1 + random.random()),
        "numpy": lambda x: x * (1 + np.random.rand()),
        "torch": lambda x: x + torch.randn_like(x),
        "keras": lambda x: x + keras.random.normal(keras.ops.shape(x)),
        "dropout": keras.layers.Dropout(0.5, seed=3),
    }

    class Noise(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.draw = draws[source]

        def call(self, x: Any) -> Any:
            return self.draw(x, training=True) if source == "dropout" else self.draw(x)

    return Noise()


def _model(source: str, seed: int) -> Any:
    import keras

    import abreast

    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((4,)), _noisy(source), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return abreast.parallelize(model, 2)


def _fit(model: Any) -> Any:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(16, 4)).astype("float32"), random.normal(size=(16, 1)).astype("float32")
    model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return np.concatenate([weight.reshape(-1) for weight in model.get_weights()])


def trained(source: str, seeds: tuple[int, ...]) -> list[Any]:
    return [_fit(_model(source, seed)) for seed in seeds]


def trained_on(source: str, seeds: tuple[int, ...]) -> list[Any]:
    """The results of one model that is reset to its first weights and fitted with each seed."""
    import keras

    model = _model(source, 3)
    weights = [weight.copy() for weight in model.get_weights()]
    found = []
    for seed in seeds:
        _fit(model)
        model.set_weights(weights)
        model.optimizer.iterations.assign(0)
        keras.utils.set_random_seed(seed)
        for layer in model._flatten_layers():
            if isinstance(layer, keras.layers.Dropout):
                layer.seed_generator.state.assign([seed, 0])
        found.append(_fit(model))
    return found


def trained_from_a_state(source: str) -> list[Any]:
    """The same fit three times, from the same weights: before the last, the generators are not put back."""
    from abreast.state import RandomState, TrainingState

    model = _model(source, 3)
    _fit(model)
    state, draws = TrainingState.read(model), RandomState.read(model)
    found = []
    for puts_draws_back in (True, False, False):
        found.append(_fit(model))
        state.put_back()
        if puts_draws_back:
            draws.put_back(model)
    return found


def trained_from_a_state_after(change: str) -> list[Any]:
    """A fit after a change that seeds the workers anew, and the same fit from the state that was read between the two."""
    import keras

    from abreast.state import RandomState, TrainingState

    model = _model("torch", 3)
    _fit(model)
    if change == "freeze":
        model.layers[-1].trainable = False
    elif change == "seed":
        keras.utils.set_random_seed(5)
    else:
        model.layers[-2].activation = lambda x: keras.ops.tanh(x) / 2
    state, draws = TrainingState.read(model), RandomState.read(model)
    found = []
    for _ in range(2):
        found.append(_fit(model))
        state.put_back()
        draws.put_back(model)
    return found


def trained_after_a_state() -> list[Any]:
    """The same fit twice, from the same weights and seed: before the seed, the generators are put back, each time others."""
    import keras

    from abreast.state import RandomState, TrainingState

    model = _model("torch", 3)
    state = TrainingState.read(model)
    found = []
    for _ in range(2):
        _fit(model)
        state.put_back()
        RandomState.read(model).put_back(model)
        keras.utils.set_random_seed(5)
        found.append(_fit(model))
    return found


def noise_before_and_after_a_freeze() -> list[Any]:
    """The draws of `predict` on the second device, for rows that are zero, before a freeze and after it."""
    import keras
    import torch

    import abreast

    class Noise(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x + torch.randn_like(x)

    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), Noise()])
    model.compile("sgd", "mse")
    abreast.parallelize(model, 2)
    zeros = np.zeros((8, 4), "float32")
    model.fit(zeros, zeros, epochs=1, batch_size=8, verbose=0)
    first = model.predict(zeros, verbose=0)[4:]
    model.fit(zeros, zeros, epochs=1, batch_size=8, verbose=0)
    model.layers[0].trainable = False
    model.compile("sgd", "mse")
    return [first, model.predict(zeros, verbose=0)[4:]]


def test_seeding_a_worker_does_not_load_tensorflow(workers: Workers) -> None:
    """It would take seconds and hundreds of megabytes in each of them."""
    rank_0, rank_1 = workers.abreast.run(tensorflow_is_loaded)
    assert rank_1 == 0, f"rank 0: {rank_0}"


def tensorflow_is_loaded() -> list[float]:
    """In a worker of the tests: whether each rank of two has loaded it, as numbers."""
    import sys

    import keras

    import abreast

    class Loaded(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x * 0 + float("tensorflow" in sys.modules)

    model = abreast.parallelize(keras.Sequential([keras.Input((1,)), Loaded()]), 2)
    loaded: list[float] = model.predict(np.zeros((2, 1)), verbose=0).ravel().tolist()
    return loaded
