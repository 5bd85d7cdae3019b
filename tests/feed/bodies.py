"""Bodies of the feed's tests; they run in a worker with devices. Batches have 4 rows of one number: their own index."""

from __future__ import annotations

import contextlib
import io
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

WAIT_SECONDS = 5.0


def model_on(devices: int, dropout: bool = False, **settings: Any) -> Any:
    keras.utils.clear_session()
    keras.utils.set_random_seed(7)
    layers = [keras.layers.Dense(64), keras.layers.Dropout(0.5)] if dropout else []
    model = keras.Sequential([keras.layers.Input((1,)), *layers, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    if not devices:
        return model
    import abreast

    return abreast.parallelize(model, devices=devices, **settings)


def batch(index: int) -> tuple[Any, Any]:
    return np.full((4, 1), index, "float32"), np.zeros((4, 1), "float32")


class Counted:
    """An endless generator of batches that knows how many it gave."""

    def __init__(self) -> None:
        self.given = 0

    def rows(self) -> Iterator[Any]:
        while True:
            self.given += 1
            yield batch(self.given - 1)


class Steps(keras.callbacks.Callback):  # type: ignore[misc]
    """Counts steps, and calls a function after each."""

    def __init__(self, after: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self.finished = 0
        self.after = after

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.finished += 1
        if self.after is not None:
            self.after(self.finished)


def feed_threads() -> list[str]:
    names = ("abreast-reader", "abreast-stager")
    return [thread.name for thread in threading.enumerate() if thread.name in names]


def reads_ahead(prefetch: int) -> dict[str, int]:
    """`held`: whether batch 5 (from 1) could not be read while step 3 had not ended."""
    source = Counted()
    held = 0

    def hold(step: int) -> None:
        nonlocal held
        deadline = time.monotonic() + (WAIT_SECONDS if prefetch else 0.3)
        while step == 3 and source.given < 5 and time.monotonic() < deadline:
            time.sleep(1e-3)
        held += int(step == 3 and source.given < 5)

    model_on(2, prefetch=prefetch).fit(source.rows(), steps_per_epoch=6, callbacks=[Steps(hold)], verbose=0)
    return {"held": held}


def batches_ahead(prefetch: int, **settings: Any) -> list[int]:
    """How many batches had been read after each step, beyond those that steps have had."""
    source = Counted()
    ahead: list[int] = []

    def count(step: int) -> None:
        time.sleep(0.03)
        ahead.append(source.given - step)

    model = model_on(2, prefetch=prefetch, **settings)
    model.fit(source.rows(), steps_per_epoch=10, callbacks=[Steps(count)], verbose=0)
    return ahead


def batches_drawn(devices: int, steps: int) -> int:
    """How far two epochs of a few steps each, with validation, have read a generator."""
    source = Counted()
    held_out = (np.ones((6, 1), "float32"), np.ones((6, 1), "float32"))
    model_on(devices).fit(source.rows(), steps_per_epoch=steps, epochs=2, validation_data=held_out, verbose=0)
    return source.given


def events_of_a_dataset() -> list[Any]:
    heard: list[Any] = []

    class Rows(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> Any:
            heard.append(index)
            return batch(index)

        def on_epoch_begin(self) -> None:
            heard.append("begin")

        def on_epoch_end(self) -> None:
            heard.append("end")

    model_on(2, prefetch=2).fit(
        Rows(), epochs=2, shuffle=False, callbacks=[Steps(lambda _: time.sleep(5e-3))], verbose=0
    )
    return heard


def rows_that_raise(at: int) -> Iterator[Any]:
    for index in range(100):
        if index == at:
            raise ValueError(f"bad file {index}")
        yield batch(index)


def source_raises(at: int) -> dict[str, Any]:
    steps = Steps()
    try:
        model_on(2, prefetch=2).fit(rows_that_raise(at), callbacks=[steps], verbose=0)
    except ValueError as error:
        functions, trace = [], error.__traceback__
        while trace is not None:
            functions.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        return _end(error, steps, functions=functions)
    raise AssertionError("the source's error is gone")


def _end(error: BaseException, steps: Steps, **more: Any) -> dict[str, Any]:
    text = f"{type(error).__name__}: {error}"
    return {"error": text, "steps": steps.finished, "threads": feed_threads(), **more}


def rows_that_hang(go_on: threading.Event) -> Iterator[Any]:
    for index in range(3):
        yield batch(index)
    go_on.wait(60)
    yield batch(3)


def source_hangs() -> dict[str, Any]:
    import abreast
    from abreast.feed import ahead, pipeline

    steps, said, go_on = Steps(), io.StringIO(), threading.Event()
    before = pipeline.WARN_SECONDS, ahead._JOIN_SECONDS
    pipeline.WARN_SECONDS, ahead._JOIN_SECONDS = 0.5, 0.2
    try:
        with contextlib.redirect_stderr(said):
            model_on(2, input_timeout=2.5).fit(rows_that_hang(go_on), callbacks=[steps], verbose=0)
    except abreast.AbreastError as error:
        go_on.set()
        deadline = time.monotonic() + WAIT_SECONDS
        while feed_threads() and time.monotonic() < deadline:
            time.sleep(0.01)
        return _end(error, steps, said=said.getvalue())
    finally:
        pipeline.WARN_SECONDS, ahead._JOIN_SECONDS = before
    raise AssertionError("the wait has not ended")


def stopped_early(how: str) -> list[str]:
    model = model_on(2, prefetch=2)
    during: set[str] = set()

    def stop(step: int) -> None:
        during.update(feed_threads())
        if step == 3 and how == "stop_training":
            model.stop_training = True
        if step == 3 and how == "KeyboardInterrupt":
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        model.fit(Counted().rows(), steps_per_epoch=8, epochs=2, callbacks=[Steps(stop)], verbose=0)
    assert during, "no thread of the feed was seen while it ran"
    model.evaluate(*batch(1), verbose=0)
    model.predict(batch(1)[0], verbose=0)
    return feed_threads()


def stopped_with_workers(fits: int = 3) -> list[str]:
    """The threads of a data set's workers that are left after some fits which end in their first epoch."""

    class Rows(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 50

        def __getitem__(self, index: int) -> Any:
            return batch(index)

    model_on(2).fit(*batch(0), verbose=0)  # starts what stays
    before = set(threading.enumerate())
    for _ in range(fits):
        model = model_on(2)
        stop = Steps(lambda step: setattr(model, "stop_training", step >= 3))  # noqa: B023
        model.fit(Rows(workers=3, max_queue_size=4), callbacks=[stop], verbose=0)
    deadline = time.monotonic() + WAIT_SECONDS
    while left := set(threading.enumerate()) - before:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return [thread.name for thread in left]


def small_budget() -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ahead = batches_ahead(2, prefetch_bytes=16)
    return {"ahead": ahead, "warnings": [str(each.message) for each in caught], "finite": True}


def rows_seen(buffers: int, constant: bool = False, same: bool = False) -> Any:
    """The index that each step found in its batch: its loss, with a weight of one and no bias, is the square of the index.

    `same`: the source yields its own array, not a view of it.
    """
    ring = [batch(index) for index in range(buffers)]

    class Rows(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            x, y = ring[index % buffers]
            if not constant:
                x[...] = index
            return (x if same else x[:]), y

    import abreast

    seen: list[int] = []

    class Loss(keras.callbacks.Callback):  # type: ignore[misc]
        total = 0.0

        def on_train_batch_end(self, step: int, logs: Any = None) -> None:
            time.sleep(0.02)
            total = float(logs["loss"]) * (step + 1)
            seen.append(round(max(total - self.total, 0.0) ** 0.5))
            self.total = total

    keras.utils.clear_session()
    model = keras.Sequential(
        [keras.layers.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")]
    )
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model = abreast.parallelize(model, devices=2, prefetch=2)
    model.evaluate(np.zeros((4, 1)), np.zeros((4, 1)), verbose=0)  # builds it: `fit` need not look at a batch first
    try:
        model.fit(Rows(), shuffle=False, callbacks=[Loss()], verbose=0)
    except abreast.AbreastError as error:
        return str(error)
    return seen


def evaluated_in_between() -> float:
    """Largest difference of weights between fits with and without evaluations in the middle of their epoch."""
    ends = []
    for evaluates in (False, True):
        model = model_on(3, prefetch=2)
        other = model_on(3)
        keras.utils.set_random_seed(7)

        def evaluate(step: int, other: Any = other, evaluates: bool = evaluates) -> None:
            if evaluates and step in (2, 5):
                other.evaluate(np.ones((10, 1), "float32"), np.ones((10, 1), "float32"), batch_size=4, verbose=0)

        model.set_weights([np.full((1, 1), 0.3), np.zeros(1)])
        model.fit(Counted().rows(), steps_per_epoch=9, callbacks=[Steps(evaluate)], verbose=0)
        ends.append(np.concatenate([weight.ravel() for weight in model.get_weights()]))
    return float(np.abs(ends[0] - ends[1]).max())


def drawn_twice() -> float:
    """How far apart two equal runs end whose rows and whose dropout are drawn from the framework's own generator."""
    ends = []
    for _ in range(2):
        model = model_on(1, dropout=True)
        keras.utils.set_random_seed(3)
        model.fit(_random_rows(), shuffle=False, verbose=0)
        ends.append(np.concatenate([weight.ravel() for weight in model.get_weights()]))
    return float(np.abs(ends[0] - ends[1]).max())


def _random_rows() -> Any:
    if keras.backend.backend() != "torch":
        return _RandomRows()
    import torch

    class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 160

        def __getitem__(self, index: int) -> Any:
            return torch.rand(1), torch.rand(1)

    return torch.utils.data.DataLoader(Rows(), batch_size=8)


class _RandomRows(keras.utils.PyDataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> Any:
        return np.random.rand(8, 1).astype("float32"), np.random.rand(8, 1).astype("float32")


def copies_of_tf_data() -> int:
    """How many batches of a `tf.data` pipeline came to the devices' side as a copy of the tensor's memory."""
    import tensorflow as tf

    tensors: list[Any] = []
    x = np.arange(64 * 512, dtype="float32").reshape(64, 512)
    dataset = tf.data.Dataset.from_tensor_slices(x).batch(8)

    class Kept:
        """The data set, with a reference to each tensor that it yields."""

        def __iter__(self) -> Iterator[Any]:
            for tensor in dataset:
                tensors.append(tensor)
                yield (tensor,)

    from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

    from abreast.backend import current_backend

    adapter = TFDatasetAdapter(dataset)
    adapter.get_tf_dataset = Kept
    batches = [each[0] for each in current_backend().source(adapter)()]
    assert len(batches) == 8
    pairs = zip(batches, tensors, strict=True)
    return sum(given is not held and not np.shares_memory(np.asarray(given), np.asarray(held)) for given, held in pairs)


def slots_left_by_failed_fits() -> list[int]:
    """Shards in the workers' memory after each of eight fits of a model that cannot be sent to them."""
    from abreast.backend import current_backend
    from abreast.errors import ModelError

    model_on(2).fit(Counted().rows(), steps_per_epoch=3, verbose=0)
    bad = model_on(2)
    bad.layers[0].rows = (index for index in range(3))  # a generator cannot be sent
    pending = []
    for _ in range(8):
        try:
            bad.fit(Counted().rows(), steps_per_epoch=3, verbose=0)
        except ModelError:
            backend: Any = current_backend()
            pending.append(sum(writer.pending for writer in backend.leader.team._writers.values()))
    return pending


def wrong_setting(arguments: dict[str, Any]) -> str:
    import abreast

    try:
        abreast.DataParallel(2, **arguments)
    except abreast.AbreastError as error:
        return str(error)
    return "accepted"


def change_of_threads(devices: int, seed: int | None) -> dict[str, Any]:
    """`fit` on arrays, where threads read at some steps, and the training thread at others; at random if there is a seed."""
    import random

    from abreast.feed import pace

    generator, changes = random.Random(seed), 0

    def step(self: Any, now_ns: int) -> None:
        nonlocal changes
        if seed is not None and generator.random() < 0.3:
            self.inline = not self.inline
            changes += 1

    plain = pace.Pace.step
    pace.Pace.step = step  # type: ignore[method-assign]
    try:
        x, y = np.random.default_rng(0).normal(size=(2, 50, 1)).astype("float32")
        model = model_on(devices)
        history = model.fit(x, y, batch_size=4, epochs=3, validation_data=(x, y), validation_batch_size=7, verbose=0)
        more = model.fit(x, y, batch_size=4, epochs=2, steps_per_epoch=5, verbose=0)
        predicted = model.predict(x, batch_size=3, verbose=0)
    finally:
        pace.Pace.step = plain  # type: ignore[method-assign]
    numbers_of_fits = [value for each in (history, more) for values in each.history.values() for value in values]
    return {
        "numbers": [*numbers_of_fits, *predicted.ravel().tolist()],
        "changes": changes,
        "threads": feed_threads(),
    }


def early_reads(devices: int, raise_at: int = 0) -> dict[str, Any]:
    """`fit` on 12 batches of arrays, which the training thread reads after the first steps.

    `finished`: by batch, the number of steps that had finished when it was read. `raise_at`: the batch whose reading raises.
    """
    from abreast.feed import pace, pipeline
    from abreast.replacing import replaced

    steps, finished, plain = Steps(), [], pipeline.BatchPipeline._read

    def read(self: Any, inline: bool = False) -> Any:
        finished.append(steps.finished)
        if self._num_read == raise_at > 0:
            raise OSError("the disk is gone")
        return plain(self, inline)

    def soon(self: Any, now_ns: int) -> None:
        self.inline = steps.finished > 3

    with replaced(pipeline.BatchPipeline, "_read", read), replaced(pace.Pace, "step", soon):
        x, y = np.random.default_rng(0).normal(size=(2, 48, 1)).astype("float32")
        model, raised = model_on(devices), ""
        try:
            losses = model.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=[steps]).history["loss"]
        except OSError as error:
            losses, raised = [], str(error)
    return {"finished": finished, "losses": losses, "raised": raised, "steps": steps.finished}


def threads_of_short_calls() -> list[int]:
    """The number of threads that a `fit` on arrays starts: of one step, and of four."""
    from abreast.feed.ahead import Ahead
    from abreast.replacing import replaced

    started, plain = 0, Ahead._start

    def start(self: Any) -> None:
        nonlocal started
        started += 1
        plain(self)

    x, y = np.random.default_rng(0).normal(size=(2, 16, 1)).astype("float32")
    model, counts = model_on(2), []
    with replaced(Ahead, "_start", start):
        for rows in (4, 16):
            started = 0
            model.fit(x[:rows], y[:rows], batch_size=4, verbose=0)
            counts.append(started)
    return counts


def closed_while_starting() -> dict[str, Any]:
    """What a reader does that another thread closes after its thread is made and before it is started."""
    import threading

    from abreast.feed.ahead import Ahead, Closed
    from abreast.replacing import replaced

    made: list[int] = []
    reader, closed, plain = Ahead(lambda: made.append(1), "closed-while-starting"), [], threading.Thread.start

    def start(thread: threading.Thread) -> None:
        closed.append(reader.close())
        plain(thread)

    with replaced(threading.Thread, "start", start):
        try:
            took = str(reader.take())
        except Closed:
            took = "Closed"
    thread = reader._thread
    if thread is not None:
        thread.join(5)
    return {
        "closed": closed == [True],
        "took": took,
        "made": len(made),
        "running": thread is not None and thread.is_alive(),
    }


def readers_of_later_calls() -> list[list[str]]:
    """The threads that read the batches of a `fit`: after an earlier one that found threads slower, and after slow reads."""
    import threading

    from abreast.feed import pace
    from abreast.feed.pipeline import BatchPipeline
    from abreast.replacing import replaced

    readers: list[list[str]] = []
    plain = BatchPipeline._read

    def read(self: Any, inline: bool = False) -> Any:
        readers[-1].append("main" if threading.current_thread() is threading.main_thread() else "reader")
        return plain(self, inline)

    x, y = np.random.default_rng(0).normal(size=(2, 24, 1)).astype("float32")
    model = model_on(2)
    with replaced(BatchPipeline, "_read", read):
        for _ in range(3):
            readers.append([])
            model.fit(x, y, batch_size=4, verbose=0)
            for each in pace._paces[model].values():
                each.inline, each.is_final = True, len(readers) == 2
                each._next = 1000  # no further measurement meanwhile
    return [names[-6:] for names in readers]  # without the batch that Keras reads to build the model


def pace_after(
    threaded_us: int,
    inline_us: int,
    measures: bool = True,
    slow_reads: int = 0,
    fast_reads: int = 1,
    spoiled: tuple[int, int] = (0, 0),
    factor: int = 10,
    steps: int = 200,
) -> dict[str, Any]:
    """What `Pace` decides after steps of these durations, in epochs of 20 with a long time between them.

    In the steps of the range `spoiled` other work on the machine makes steps that are read inline take `factor` times as long.
    Afterwards, the training thread reads: `fast_reads` before each of the `slow_reads`.
    """
    from abreast.feed.pace import Pace

    pace, now, tried = Pace(measures), 0, 0
    for step in range(steps):
        if step % 20 == 0:
            pace.begin()
            now += 10**9
        slower = factor if step in range(*spoiled) else 1
        now += 1000 * (slower * inline_us if pace.inline else threaded_us)
        pace.step(now)
        tried += pace.inline
    for _ in range(slow_reads):
        for _ in range(fast_reads):
            pace.has_read(100)
        pace.has_read(5_000_000)
    return {"inline": pace.inline, "tried": tried}
