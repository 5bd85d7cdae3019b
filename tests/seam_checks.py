"""The rules of the seam for every backend, as functions that assert. They run in pytest's process on the fake backend, and in a
worker on a framework's. Each takes a `Seam`; importing this loads no Keras.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from abreast.backend.contract import Backend, Kind, Placement
from abreast.errors import BackendError

Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
RATE = 0.1
FEATURES = 3


class Seam(Protocol):
    """A backend with two devices or more, and linear models that it can train: `x @ weights`, by `RATE` on the squared error."""

    backend: Backend[Any]
    noise: Any  # a model whose output is drawn on each device

    def model(self, weights: np.ndarray[Any, Any], steps_per_execution: int = 1) -> Any: ...

    def weights(self, model: Any) -> np.ndarray[Any, Any]: ...

    def batch(self, arrays: Arrays) -> Any:
        """A `HostBatch`."""
        ...

    def held_bytes(self) -> int:
        """The memory of batches under way; on a framework, the memory of this process."""
        ...

    def draw(self) -> Sequence[float]:
        """Numbers of the framework's global generator, and of those of both devices that `noise` runs on, if they have some."""
        ...


def data(rows: int, seed: int = 0) -> Arrays:
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, FEATURES)).astype("float32"), random.normal(size=(rows, 1)).astype("float32")


def first_weights() -> np.ndarray[Any, Any]:
    return np.full((FEATURES, 1), 0.5, "float32")


def learnt(batches: Sequence[Arrays]) -> tuple[np.ndarray[Any, Any], list[float]]:
    """Weights after gradient descent over batches on one device, and the loss of each, by hand."""
    weights, losses = first_weights().astype("float64"), []
    for x, y in batches:
        error = x @ weights - y
        losses.append(float((error**2).mean()))
        weights = weights - RATE * 2 * x.T @ error / len(x)
    return weights, losses


def placement_on(seam: Seam, devices: int, **settings: Any) -> Placement:
    names = seam.backend.device_names()[:devices]
    assert len(names) == devices
    seam.backend.install(names)
    return Placement(seam.backend, names, **settings)


def run(seam: Seam, kind: Kind, model: Any, placement: Placement, batches: Sequence[Arrays]) -> list[Any]:
    """The results of the steps. Settles the model."""
    seam.backend.place(model, placement)
    step, source = seam.backend.step_function(kind, model, placement).run, iter(batches)
    results = []
    failed = True
    try:
        for _ in batches:
            results.append(step(source))
        failed = False
    finally:
        seam.backend.settle(model, placement, failed)
    return results


def loss_of(logs: Any) -> float:
    return float(np.asarray(logs["loss"]))


def devices_have_a_kind_and_a_number(seam: Seam) -> None:
    names = seam.backend.device_names()
    assert len(set(names)) == len(names) >= 2
    assert all(re.fullmatch(r"(cpu|gpu):\d+", name) for name in names), names


def asking_for_the_devices_that_are_there_changes_nothing(seam: Seam) -> None:
    names = seam.backend.device_names()
    seam.backend.use_cpu_devices(len(names))
    assert seam.backend.device_names() == names


def a_step_learns_what_one_device_learns(seam: Seam) -> None:
    """8 rows divide by 2 devices, 5 and 1 do not."""
    batches = [data(8, 1), data(5, 2), data(1, 3)]
    model = seam.model(first_weights())
    results = run(seam, "train", model, placement_on(seam, 2), batches)
    weights, losses = learnt(batches)
    difference = float(np.abs(seam.weights(model) - weights).max())
    assert difference < 1e-6, difference  # measured 1.2e-7
    assert np.allclose(loss_of(results[0]), losses[0], atol=1e-6)


def one_device_learns_the_same(seam: Seam) -> None:
    batches = [data(8, 1), data(5, 2)]
    model = seam.model(first_weights())
    run(seam, "train", model, placement_on(seam, 1), batches)
    difference = float(np.abs(seam.weights(model) - learnt(batches)[0]).max())
    assert difference < 1e-6, difference  # measured 1.2e-7


def testing_changes_no_weights(seam: Seam) -> None:
    model = seam.model(first_weights())
    results = run(seam, "test", model, placement_on(seam, 2), [data(7)])
    assert np.array_equal(seam.weights(model), first_weights())
    assert abs(loss_of(results[0]) - learnt([data(7)])[1][0]) < 1e-6


def predictions_come_for_all_rows_in_order(seam: Seam) -> None:
    x, y = data(7)
    model = seam.model(first_weights())
    results = run(seam, "predict", model, placement_on(seam, 2), [(x, y)])
    assert np.allclose(np.asarray(results[0]), x @ first_weights(), atol=1e-6)


def a_source_that_ends_raises_stop_iteration(seam: Seam) -> None:
    model, placement = seam.model(first_weights()), placement_on(seam, 2)
    seam.backend.place(model, placement)
    step, source = seam.backend.step_function("train", model, placement).run, iter([data(4)])
    step(source)
    try:
        step(source)
    except StopIteration:
        return
    finally:
        seam.backend.settle(model, placement, False)
    raise AssertionError("a step without a batch returned")


def a_failure_leaves_the_weights_of_the_last_finished_step(seam: Seam) -> None:
    batches = [data(8, 1), data(6, 2)]

    def failing() -> Iterator[Arrays]:
        yield from batches
        raise OSError("the disk is gone")

    model, placement = seam.model(first_weights()), placement_on(seam, 2)
    seam.backend.place(model, placement)
    step, source = seam.backend.step_function("train", model, placement).run, failing()
    try:
        for _ in range(3):
            step(source)
    except OSError:
        seam.backend.settle(model, placement, True)
    else:
        raise AssertionError("the source's error did not come out")
    difference = float(np.abs(seam.weights(model) - learnt(batches)[0]).max())
    assert difference < 1e-6, difference  # measured 1.2e-7
    run(seam, "train", model, placement, [data(4)])  # and it trains on


def discarded_batches_give_back_their_memory(seam: Seam) -> None:
    """Allocators may keep 20 MB of 60 batches of 1.3 MB."""
    model, placement = seam.model(first_weights()), placement_on(seam, 2)
    run(seam, "train", model, placement, [data(4)])  # starts what stages
    stage = seam.backend.stage(placement)
    random = np.random.default_rng(0)
    before = seam.held_bytes()
    for _ in range(60):
        x = random.normal(size=(80_000, FEATURES)).astype("float32")
        stage.discard(stage.put(seam.batch((x, x[:, :1]))))
    assert seam.held_bytes() - before < 20e6, seam.held_bytes() - before
    run(seam, "train", model, placement, [data(4)])


def putting_returns_without_a_step(seam: Seam) -> None:
    """As many batches as a feed has under way at its usual depth."""
    placement = placement_on(seam, 2)
    stage = seam.backend.stage(placement)
    staged = [stage.put(seam.batch(data(4, seed))) for seed in range(3)]
    for each in staged:
        stage.discard(each)


def times_are_told_for_devices_of_the_placement(seam: Seam) -> None:
    instruments = seam.backend.instruments
    one, two = placement_on(seam, 1), placement_on(seam, 2)
    assert instruments.device_times(one).devices == one.devices
    assert instruments.device_times(one).all_reduce
    assert set(instruments.device_times(two).devices) <= set(two.devices)
    assert instruments.device_times(None).devices[0] in seam.backend.device_names()


def finished_gives_a_time_per_device_or_one_for_all(seam: Seam) -> None:
    placement = placement_on(seam, 2)
    start = time.perf_counter_ns()
    results = run(seam, "train", seam.model(first_weights()), placement, [data(8)])
    instruments = seam.backend.instruments
    mark = instruments.mark(results[0])
    if mark is None:  # the step had ended as it returned
        return
    times = instruments.finished(mark)
    assert len(times) in (1, placement.num_devices)
    assert all(start < each < time.perf_counter_ns() + 60e9 for each in times), (start, times)


def a_trace_leaves_files_and_says_how_to_open_them(seam: Seam, folder: str) -> None:
    placement = placement_on(seam, 2)
    tracer = seam.backend.instruments.trace(folder)
    try:
        seam.backend.instruments.trace(folder)
    except BackendError:
        pass
    else:
        raise AssertionError("a second profiler started")
    finally:
        tracer.begin_step(0)
        run(seam, "train", seam.model(first_weights()), placement, [data(4)])
        tracer.end_step()
        how = tracer.stop()
    assert how
    assert tracer.stop() == how
    assert any(path.is_file() for path in Path(folder).rglob("*"))


def random_state_is_put_back(seam: Seam) -> None:
    instruments = seam.backend.instruments
    seam.draw()
    state = instruments.random_state(seam.noise)
    drawn = [seam.draw(), seam.draw()]
    instruments.set_random_state(state, seam.noise)
    if state is not None:
        assert [seam.draw(), seam.draw()] == drawn


def sums_take_time_on_several_devices(seam: Seam) -> None:
    seconds = seam.backend.instruments.all_reduce_seconds(placement_on(seam, 2), 1 << 20)
    assert 0 < seconds < 10 and math.isfinite(seconds)


def a_closed_placement_trains_again(seam: Seam) -> None:
    placement = placement_on(seam, 2)
    run(seam, "train", seam.model(first_weights()), placement, [data(4)])
    seam.backend.close(placement)
    model = seam.model(first_weights())
    run(seam, "train", model, placement, [data(4)])
    assert float(np.abs(seam.weights(model) - learnt([data(4)])[0]).max()) < 1e-6  # measured 6e-8


CHECKS: tuple[Callable[[Seam], None], ...] = (
    devices_have_a_kind_and_a_number,
    asking_for_the_devices_that_are_there_changes_nothing,
    a_step_learns_what_one_device_learns,
    one_device_learns_the_same,
    testing_changes_no_weights,
    predictions_come_for_all_rows_in_order,
    a_source_that_ends_raises_stop_iteration,
    a_failure_leaves_the_weights_of_the_last_finished_step,
    discarded_batches_give_back_their_memory,
    putting_returns_without_a_step,
    times_are_told_for_devices_of_the_placement,
    finished_gives_a_time_per_device_or_one_for_all,
    random_state_is_put_back,
    sums_take_time_on_several_devices,
    a_closed_placement_trains_again,
)


class RealSeam:
    """The backend that Keras runs on. In a worker only."""

    def __init__(self) -> None:
        from abreast.backend import current_backend

        self.backend: Backend[Any] = current_backend()
        self.noise: Any = _noise_of_torch() if self.backend.name == "torch" else None

    def model(self, weights: np.ndarray[Any, Any], steps_per_execution: int = 1) -> Any:
        import keras

        model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1, use_bias=False)])
        model.compile(keras.optimizers.SGD(RATE), "mse", steps_per_execution=steps_per_execution)
        model._symbolic_build(data_batch=data(1))
        model.set_weights([weights])
        return model

    def weights(self, model: Any) -> np.ndarray[Any, Any]:
        return np.asarray(model.get_weights()[0])

    def batch(self, arrays: Arrays) -> Any:
        from abreast.feed import HostBatch

        return HostBatch.of(arrays)

    def held_bytes(self) -> int:
        """Resident memory, that of shared memory included."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096

    def draw(self) -> list[float]:
        if self.backend.name == "torch":
            import torch

            drawn = run(self, "predict", self.noise, placement_on(self, 2), [data(2)])[0]
            return [float(torch.rand(())), *drawn.flatten().tolist()]
        if self.backend.name == "tensorflow":
            import tensorflow as tf

            return [float(tf.random.uniform(()))]
        return []


def _noise_of_torch() -> Any:
    import keras
    import torch

    class Noise(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, x: Any) -> Any:
            return torch.rand((len(x), 1))

    model = keras.Sequential([Noise()])
    model.compile("sgd", "mse")
    return model


def check_in_worker(name: str, **arguments: Any) -> None:
    globals()[name](RealSeam(), **arguments)
