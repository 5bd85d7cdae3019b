"""Staged batches: faster than copies between steps, and with the same weights at the end.

One source makes new arrays, the other writes each batch into the same array, over the batch before: a step or a copy that is
still under way then takes the next batch's rows. Where plain Keras does so, too, the part reports it and does not judge it.
Times are of prepared batches in turn, which abreast need not copy before it stages them.
"""

from __future__ import annotations

import importlib
import itertools
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.gpu.place import Found, Place

_ROWS, _SHAPE = 64, (160, 160, 3)  # 20 MB a batch of float32
_STEPS = {"gpu": 30, "cpu": 10}
_ROUNDS, _DROPPED = 3, 4
_IN_TURN = 8  # abreast copies a batch whose arrays it has met among the 6 before
KERAS, NEW_ARRAYS, ONE_ARRAY = "keras", "new arrays", "one array"
SIDES = (KERAS, "prefetch=0", "prefetch=2")
_MOST_DIFFERENCE = 1e-4
_MOST_TIMES = 1.25  # time with staged batches over time without


def run(place: Place) -> Found:
    import abreast

    place.prepare()
    native: Any = importlib.import_module(f"abreast.bench.native_{place.backend}")
    steps = _STEPS[place.kind]

    def made(name: str) -> Any:
        return _model() if name == KERAS else abreast.parallelize(_model(), place.devices, prefetch=int(name[-1]))

    sources: dict[str, Callable[[], Iterator[Any]]] = {NEW_ARRAYS: new_arrays, ONE_ARRAY: one_array}
    weights = {
        (name, source): _weights_after(made(name), batches(), steps)
        for name in SIDES
        for source, batches in sources.items()
    }
    differences = {key: difference(found, weights[KERAS, NEW_ARRAYS]) for key, found in weights.items()}
    models = {name: made(name) for name in SIDES}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(_ROUNDS):
        for name, model in models.items():
            seconds[name].append(_seconds_per_step(model, steps, native))
    return verdict(seconds, differences, place)


def verdict(seconds: dict[str, list[float]], differences: dict[tuple[str, str], float], place: Place) -> Found:
    """`differences`: of the weights to those of plain Keras with new arrays, by side and source."""
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    times = medians["prefetch=2"] / medians["prefetch=0"]
    wrong = {key: off for key, off in differences.items() if not off < _MOST_DIFFERENCE}
    judged = {(name, source): off for (name, source), off in wrong.items() if (KERAS, source) not in wrong}
    problems = [
        f"{name}, {source}: weights differ from plain Keras's by {off:.1e}" for (name, source), off in judged.items()
    ]
    if place.judges_time and min(seconds["prefetch=2"]) > _MOST_TIMES * min(seconds["prefetch=0"]):
        problems.append(f"a step takes {times:.2f} times as long with batches ahead")
    figure = f"{1000 * medians['prefetch=2']:.2f} ms, {times:.2f}x prefetch=0, keras {1000 * medians[KERAS]:.2f} ms"
    told = {f"{name}, {source}": off for (name, source), off in differences.items()}
    return Found(figure, {"seconds_per_step": seconds, "differences": told}, tuple(problems), _not_judged(wrong))


def _not_judged(wrong: dict[tuple[str, str], float]) -> tuple[str, ...]:
    """Differences if plain Keras, too, has trained on rows of other batches."""
    if (KERAS, ONE_ARRAY) not in wrong:
        return ()
    off = ", ".join(f"{name} by {off:.1e}" for (name, source), off in wrong.items() if source == ONE_ARRAY)
    return (f"{ONE_ARRAY}: plain Keras is wrong, too: {off}",)


def difference(weights: Any, others: Any) -> float:
    """The largest difference, relative to the largest number."""
    import numpy as np

    one, other = (np.concatenate([np.ravel(each) for each in all_]) for all_ in (weights, others))
    return float(np.max(np.abs(one - other)) / np.max(np.abs(other)))


def _model() -> Any:
    import keras

    keras.utils.set_random_seed(3)
    layers = [keras.layers.Conv2D(16, 5, strides=4, activation="relu"), keras.layers.GlobalAveragePooling2D()]
    model = keras.Sequential([keras.Input(_SHAPE), *layers, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model


def _weights_after(model: Any, batches: Iterator[Any], steps: int) -> list[Any]:
    model.fit(batches, steps_per_epoch=steps, verbose=0)
    return [value.copy() for value in model.get_weights()]


def _seconds_per_step(model: Any, steps: int, native: Any) -> float:
    """Seconds per step of a fit, without its first steps."""
    from abreast.bench import clock

    arguments = {"x": in_turn(), "steps_per_epoch": _DROPPED + steps + 1}
    return float(clock.seconds_per_step(model, arguments, _DROPPED, steps, lambda: native.wait_for(model)))


def new_arrays() -> Iterator[Any]:
    """The same batches, each in its own arrays."""
    return ((x.copy(), y.copy()) for x, y in one_array())


def in_turn() -> Iterator[Any]:
    """An endless source of batches that are made before."""
    yield from itertools.cycle(list(itertools.islice(new_arrays(), _IN_TURN)))


def one_array() -> Iterator[Any]:
    """An endless source of batches in the same two arrays."""
    import numpy as np

    draws = np.random.default_rng(0)
    noise = draws.normal(size=(_ROWS, *_SHAPE)).astype("float32")
    x, y = np.empty_like(noise), np.empty((_ROWS, 1), "float32")
    number = 0
    while True:
        number += 1
        np.multiply(noise, np.float32(1 + number % 7) / 4, out=x)
        y[:] = number % 3
        yield x, y
