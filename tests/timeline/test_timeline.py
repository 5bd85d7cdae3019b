"""`abreast.Timeline` on every backend: it finds planted losses of time, and leaves nothing."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import RemoteError, Workers
from tests.timeline.trace_format import faults

PARTS = ("wait", "copy", "compute", "all_reduce", "callbacks", "rest")
TOLD_APART = {"torch"}  # all-reduce, on the CPU


def test_the_parts_of_every_step_add_up_to_its_time(workers: Workers) -> None:
    end = workers.abreast.run(ordinary_fit)
    assert end["num_steps"] == 12
    assert end["largest_gap"] < 1e-5  # of a second; measured 1e-6, float32 of a first step of 10 s
    assert end["negative"] == 0


def test_epochs_and_validation_are_separated_from_steps(workers: Workers) -> None:
    history = workers.abreast.run(ordinary_fit)["history"]
    assert history["epoch"] == [0, 1]
    assert history["num_steps"] == [6, 6]
    for epoch in range(2):
        parts = sum(history[f"{name}_seconds"][epoch] for name in (*PARTS, "validation", "epoch"))
        assert parts == pytest.approx(history["total_seconds"][epoch], abs=1e-4)
        # Each of the three validation batches takes 50 ms to read, and each epoch's end 40 ms.
        assert history["validation_seconds"][epoch] > 0.1
        assert history["epoch_seconds"][epoch] > 0.04
        assert history["wait_seconds"][epoch] < 0.1


def test_computing_and_summing_in_one_program_are_not_separated(workers: Workers) -> None:
    end = workers.abreast.run(ordinary_fit)
    told = workers.backend in TOLD_APART
    assert (end["all_reduce"] is not None) == told
    assert (end["all_reduce_seconds"] > 0) == told
    assert ("computing with all-reduce" in end["table"]) == (not told)
    assert any("all-reduce" in note for note in end["notes"])


@pytest.mark.in_turn
def test_the_file_has_a_header_and_a_line_per_step(workers: Workers, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "run.jsonl"
    end = workers.abreast.run(ordinary_fit, path=str(path))
    header, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert header["format"] == "abreast timeline 1"
    assert header["backend"] == workers.backend
    assert {"python", "keras"} <= set(header["versions"])
    steps = [line for line in lines if line["event"] == "step"]
    assert [(line["epoch"], line["step"]) for line in steps] == [(e, s) for e in range(2) for s in range(6)]
    assert all(sum(line["seconds"].values()) == pytest.approx(line["wall_seconds"], abs=1e-7) for line in steps)
    assert [line["epoch"] for line in lines if line["event"] == "epoch"] == [0, 1]
    assert end["lines_at_the_last_step"] >= 2  # a killed run leaves what it did


def test_the_trace_shows_every_track_and_is_of_the_published_format(workers: Workers, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    workers.abreast.run(ordinary_fit, trace=str(path))
    content = json.loads(path.read_text())
    assert faults(content) == []
    events = content["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    devices = {"cpu:0"} if workers.backend == "torch" else {"cpu:0", "cpu:1"}
    assert {"steps", "main", "reader", "stager", "callbacks", *devices} <= names
    assert sum(event["ph"] == "X" and event["cat"] == "steps" for event in events) == 12


def test_scalars_for_tensorboard_need_no_tensorflow(workers: Workers, tmp_path: Path) -> None:
    end = workers.abreast.run(scalars, logdir=str(tmp_path))
    first, *events = events_in(Path(end["path"]))
    assert first.file_version == "brain.Event:2"
    assert [event.step for event in events] == list(range(6))
    values = [{value.tag: value.simple_value for value in event.summary.value} for event in events]
    told = {"timeline/step_ms", "timeline/wait_ms", "timeline/starvation", "timeline/rows_per_second"}
    assert all(each.keys() >= told for each in values)
    assert [each["timeline/step_ms"] for each in values] == pytest.approx(end["expected"], rel=1e-6)
    assert not end["loaded_tensorflow"]


def test_a_missing_package_tensorboard_is_an_error(workers: Workers) -> None:
    with pytest.raises(RemoteError, match="hint: pip install tensorboard") as caught:
        workers.abreast.run(scalars_without_tensorboard)
    assert "BackendError" in caught.value.kinds


@pytest.mark.alone
@pytest.mark.in_turn
@pytest.mark.parametrize("place", ["source", "put", "callback", "step"])
def test_time_lost_on_purpose_is_found_where_it_was_lost(workers: Workers, place: str) -> None:
    """40 ms are lost at every step, in which little else happens."""
    part = {"source": "wait", "put": "copy", "callback": "callbacks", "step": "compute"}[place]
    end = workers.abreast.run(lossy_fit, place=place)
    assert end["medians"][part] > 0.02  # a source hides some of it behind the step before
    assert end["medians"][part] > 0.5 * end["step"]
    assert (end["starvation"] > 0.5) == (part in ("wait", "copy"))


def test_rows_are_counted(workers: Workers) -> None:
    end = workers.abreast.run(ordinary_fit)
    assert end["rows"] == [16] * 12
    assert end["rows_per_second"] > 0
    assert "rows per second" in end["table"]


def test_rows_are_those_of_the_step_also_where_the_next_batch_is_put_first(workers: Workers) -> None:
    assert workers.abreast.run(rows_with_slow_first_puts) == [16] * 12


@pytest.mark.parametrize(
    ("kind", "batches"),
    [
        ("dataset", [4, 2]),
        ("arrays", [4, 2]),
        ("generator", [4, 2]),  # Keras does not know its length
        ("plain Keras", [4, 2]),
        ("2 steps of 6", [4]),  # Keras takes 4, since they are there
    ],
)
def test_several_steps_per_execution_are_one_row(
    workers: Workers, tmp_path: Path, kind: str, batches: list[int]
) -> None:
    if workers.backend == "torch":
        pytest.skip("Keras has no steps_per_execution on PyTorch")
    end = workers.abreast.run(several_steps_per_execution, path=str(tmp_path / "run.jsonl"), kind=kind)
    assert end["step"] == [0, 4][: len(batches)]
    assert end["batches"] == batches
    assert end["bytes"] == ([] if kind == "plain Keras" else [16 * 7 * 4 * count for count in batches])
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert [line["batches"] for line in lines if line.get("event") == "step"] == batches


def test_a_plain_keras_model_is_split_as_far_as_it_can_be(workers: Workers) -> None:
    end = workers.abreast.run(ordinary_fit, devices=0)
    assert end["num_steps"] == 12
    assert end["medians"]["compute"] > 0
    assert any("not placed by abreast" in note for note in end["notes"])


@pytest.mark.full
def test_two_timelines_see_the_same_steps(workers: Workers) -> None:
    first, second = workers.abreast.run(two_timelines)
    assert len(first) == len(second) == 6
    assert first == pytest.approx(second, abs=2e-3)


def test_a_fit_inside_a_callback_is_time_of_callbacks(workers: Workers) -> None:
    end = workers.abreast.run(nested_fit)
    assert end["outer_steps"] == 6
    assert end["inner_steps"] == 3
    assert end["callbacks"] > end["inner_seconds"]
    assert end["wait"] < end["inner_seconds"]


def test_a_finished_fit_leaves_nothing(workers: Workers) -> None:
    end = workers.abreast.run(what_a_fit_leaves)
    assert end["threads"] == []
    assert end["listeners"] == 0
    assert end["wrapped"] == []
    assert end["asynchronous"] == (workers.backend in ("jax", "torch"))  # as without a timeline


@pytest.mark.in_turn(1)
@pytest.mark.parametrize(
    ("kind", "keeps_traceback"),
    [
        ("RuntimeError", False),
        ("KeyboardInterrupt", True),
        pytest.param("RuntimeError", True, marks=pytest.mark.full),
        pytest.param("KeyboardInterrupt", False, marks=pytest.mark.full),
    ],
)
def test_a_failed_fit_leaves_nothing(workers: Workers, kind: str, keeps_traceback: bool) -> None:
    end = workers.abreast.run(what_a_failed_fit_leaves, kind=kind, keeps_traceback=keeps_traceback)
    assert end["kind"] == kind
    assert (end["threads_meanwhile"], end["threads"]) == (["abreast-sampler", "abreast-timeline"], [])
    assert end["listeners"] == 0
    assert end["steps"] == 2  # the third one failed
    assert end["steps_of_the_next"] == 6


def test_spans_are_kept_of_the_newest_steps_only(workers: Workers) -> None:
    assert workers.abreast.run(kept_steps, keep_steps=3) <= 4


def test_wrong_arguments_are_refused(workers: Workers) -> None:
    errors = workers.abreast.run(wrong_arguments)
    assert [kind for kind, _ in errors] == ["BackendError"] * 4
    assert all("hint:" in message for _, message in errors)


def events_in(path: Path) -> list[Any]:
    """The events of a TensorBoard file: records of a length, its checksum, the data, and the data's checksum.

    Not by TensorBoard's own reader, which loads TensorFlow where that is installed.
    """
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    data, events = path.read_bytes(), []
    while data:
        length, length_check = struct.unpack("<QI", data[:12])
        content, (check,) = data[12 : 12 + length], struct.unpack("<I", data[12 + length : 16 + length])
        assert (masked_crc32c(data[:8]), masked_crc32c(content)) == (length_check, check)
        events.append(Event.FromString(content))
        data = data[16 + length :]
    return events


# Bodies.


def task(devices: int = 2) -> tuple[Any, Any, Any]:
    """A model and 96 rows: six batches of 16."""
    import keras
    import numpy as np

    import abreast

    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6), keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    draws = np.random.default_rng(0)
    x, y = draws.normal(size=(96, 4)).astype("float32"), draws.normal(size=(96, 3)).astype("float32")
    return abreast.parallelize(model, devices=devices) if devices else model, x, y


def source(x: Any, y: Any, seconds: float = 0.0) -> Any:
    """Batches of 16 rows, each of which takes some time to read."""
    import time

    import keras

    class Dataset(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
        def __len__(self) -> int:
            return len(x) // 16

        def __getitem__(self, index: int) -> Any:
            time.sleep(seconds)
            return x[16 * index : 16 * index + 16], y[16 * index : 16 * index + 16]

    return Dataset()


def ordinary_fit(path: str | None = None, trace: str | None = None, devices: int = 2) -> dict[str, Any]:
    import time

    import keras
    import numpy as np

    import abreast

    model, x, y = task(devices)
    timeline = abreast.Timeline(path, sample_seconds=0.05)
    lines: list[int] = []

    def look(batch: int, logs: Any) -> None:
        if path is not None and batch == 5:
            time.sleep(1.5)
            lines.append(len(Path(path).read_text().splitlines()))

    callback = keras.callbacks.LambdaCallback(
        on_train_batch_begin=look, on_epoch_end=lambda epoch, logs: time.sleep(0.04)
    )
    model.fit(
        x,
        y,
        batch_size=16,
        epochs=2,
        verbose=0,
        validation_data=source(x[:48], y[:48], seconds=0.05),
        callbacks=[timeline, callback],
    )
    steps, summary = timeline.steps, timeline.summary()
    parts = np.stack([steps[name].astype("f8") for name in PARTS])
    if trace is not None:
        timeline.write_trace(trace)
    return {
        "num_steps": len(steps),
        "largest_gap": float(np.abs(parts.sum(axis=0) - steps["wall"]).max()),
        "negative": int((parts < 0).sum()),
        "history": timeline.history,
        "all_reduce": summary["parts"]["all_reduce"],
        "all_reduce_seconds": float(steps["all_reduce"].sum()),
        "medians": medians(timeline),
        "table": str(summary),
        "rows": steps["rows"].tolist(),
        "rows_per_second": summary["rows_per_second"],
        "notes": summary["notes"],
        "lines_at_the_last_step": min(lines, default=0),
    }


def medians(timeline: Any) -> dict[str, float]:
    parts = timeline.summary()["parts"]
    return {name: 0.0 if parts[name] is None else parts[name]["median"] for name in PARTS}


def lossy_fit(place: str) -> dict[str, Any]:
    import time

    import keras

    import abreast
    from abreast.placed_models import placement_of

    def slow(plain: Any) -> Any:
        def slower(*args: Any, **kwargs: Any) -> Any:
            time.sleep(0.04)
            return plain(*args, **kwargs)

        return slower

    model, x, y = task()
    model.fit(x, y, batch_size=16, verbose=0)  # compiles
    placement = placement_of(model)
    assert placement is not None
    backend: Any = placement.backend
    timeline = abreast.Timeline(sample_seconds=None)
    callbacks = [timeline]
    if place == "callback":
        callbacks.append(keras.callbacks.LambdaCallback(on_train_batch_begin=slow(lambda batch, logs: None)))
    if place == "put":
        backend.put = slow(backend.put)
    if place == "step":
        plain = backend.step_function
        backend.step_function = lambda *args: replace(step := plain(*args), for_keras=slow(step.for_keras))
        model.train_function = None
    try:
        data = source(x, y, seconds=0.04 if place == "source" else 0.0)
        model.fit(data, shuffle=False, epochs=2, verbose=0, callbacks=callbacks)
    finally:
        backend.__dict__.pop("put", None)
        backend.__dict__.pop("step_function", None)
    summary = timeline.summary()
    return {
        "medians": medians(timeline),
        "step": summary["step_seconds"]["median"],
        "starvation": summary["starvation"],
    }


def scalars(logdir: str) -> dict[str, Any]:
    import sys

    import abreast

    model, x, y = task()
    timeline = abreast.Timeline()
    model.fit(x, y, batch_size=16, verbose=0, callbacks=[timeline])
    before = "tensorflow" in sys.modules
    path = timeline.write_tensorboard(logdir)
    loaded = "tensorflow" in sys.modules and not before
    expected = [1000 * float(value) for value in timeline.steps["wall"]]
    return {"path": str(path), "expected": expected, "loaded_tensorflow": loaded}


def scalars_without_tensorboard() -> None:
    import sys
    from unittest import mock

    import abreast

    missing = {name: None for name in sys.modules if name.partition(".")[0] == "tensorboard"}
    with mock.patch.dict(sys.modules, {**missing, "tensorboard": None}):
        abreast.Timeline().write_tensorboard("nowhere")


def several_steps_per_execution(path: str, kind: str) -> dict[str, list[int]]:
    import abreast

    model, x, y = task(devices=0 if kind == "plain Keras" else 2)
    model.compile("sgd", "mse", steps_per_execution=4)
    timeline = abreast.Timeline(path)
    options = {"shuffle": False, "verbose": 0, "callbacks": [timeline]}
    dataset = source(x, y, seconds=0.01)
    if kind == "generator":
        model.fit((dataset[index] for index in range(6)), **options)
    elif kind == "arrays":
        model.fit(x, y, batch_size=16, **options)
    else:
        model.fit(dataset, steps_per_epoch=2 if kind == "2 steps of 6" else None, **options)
    steps = timeline.steps
    told = [size for size in steps["bytes"].tolist() if size]
    return {"step": steps["step"].tolist(), "batches": steps["batches"].tolist(), "bytes": told}


def rows_with_slow_first_puts() -> list[int]:
    """The training thread puts the first batch of an epoch, while the stager is at the next one."""
    import threading
    import time

    import abreast
    from abreast.placed_models import placement_of

    model, x, y = task()
    placement = placement_of(model)
    assert placement is not None
    backend: Any = placement.backend
    plain = backend.put

    def put(*args: Any, **kwargs: Any) -> Any:
        if not threading.current_thread().name.startswith("abreast-"):
            time.sleep(0.1)
        return plain(*args, **kwargs)

    backend.put = put
    timeline = abreast.Timeline()
    try:
        model.fit(source(x, y), shuffle=False, epochs=2, verbose=0, callbacks=[timeline])
    finally:
        del backend.put
    rows: list[int] = timeline.steps["rows"].tolist()
    return rows


def two_timelines() -> tuple[list[float], list[float]]:
    import abreast

    model, x, y = task()
    timelines = [abreast.Timeline(), abreast.Timeline()]
    model.fit(source(x, y, seconds=0.01), shuffle=False, verbose=0, callbacks=timelines)
    first, second = ([float(value) for value in timeline.steps["wall"]] for timeline in timelines)
    return first, second


def nested_fit() -> dict[str, Any]:
    import time

    import keras

    import abreast

    outer, x, y = task()
    inner, _, _ = task()
    timeline, nested = abreast.Timeline(), abreast.Timeline()
    seconds: list[float] = []

    def fit_other(batch: int, logs: Any) -> None:
        if batch == 2:
            start = time.perf_counter()
            inner.fit(source(x[:48], y[:48], seconds=0.05), shuffle=False, verbose=0, callbacks=[nested])
            seconds.append(time.perf_counter() - start)

    callback = keras.callbacks.LambdaCallback(on_train_batch_begin=fit_other)
    outer.fit(x, y, batch_size=16, verbose=0, callbacks=[timeline, callback])
    return {
        "outer_steps": len(timeline.steps),
        "inner_steps": len(nested.steps),
        "inner_seconds": seconds[0],
        "callbacks": float(timeline.steps["callbacks"].sum()) + 0.02,  # the step before may still be computed meanwhile
        "wait": float(timeline.steps["wait"].sum()),
    }


def what_a_fit_leaves() -> dict[str, Any]:
    import keras

    import abreast
    from abreast.timeline.callback_times import EVENTS

    model, x, y = task()
    timeline = abreast.Timeline()
    callbacks = keras.callbacks.CallbackList([timeline], model=model, add_history=True)
    model.fit(x, y, batch_size=16, verbose=0, callbacks=callbacks)
    assert len(timeline.steps) == 6
    wrapped = [name for name in (*EVENTS, "_abreast_listeners") if name in callbacks.__dict__]
    return left() | {"wrapped": wrapped, "asynchronous": callbacks._async_train}


def what_a_failed_fit_leaves(kind: str, keeps_traceback: bool) -> dict[str, Any]:
    import builtins
    import time

    import keras

    import abreast

    model, x, y = task()
    timeline = abreast.Timeline()

    meanwhile: list[str] = []

    def fail(batch: int, logs: Any) -> None:
        if batch == 2:
            meanwhile.extend(sorted(left()["threads"]))
            raise getattr(builtins, kind)("planted")

    callback = keras.callbacks.LambdaCallback(on_train_batch_begin=fail)
    kept: list[BaseException] = []
    name = ""
    try:
        model.fit(x, y, batch_size=16, verbose=0, callbacks=[timeline, callback])
    except BaseException as error:
        name = type(error).__name__
        if keeps_traceback:
            kept.append(error)
    deadline = time.monotonic() + 10
    while (left()["threads"] or left()["listeners"]) and time.monotonic() < deadline:
        time.sleep(0.05)
    end = left() | {"kind": name, "steps": len(timeline.steps), "threads_meanwhile": meanwhile}
    model.fit(x, y, batch_size=16, verbose=0, callbacks=[timeline])
    return end | {"steps_of_the_next": len(timeline.steps)}


def left() -> dict[str, Any]:
    import threading

    from abreast import spans

    ours = ("abreast-timeline", "abreast-sampler")
    threads = [thread.name for thread in threading.enumerate() if thread.name in ours]
    return {"threads": threads, "listeners": len(spans.LISTENERS)}


def kept_steps(keep_steps: int) -> int:
    import abreast

    model, x, y = task()
    timeline = abreast.Timeline(keep_steps=keep_steps)
    model.fit(x, y, batch_size=16, epochs=3, verbose=0, callbacks=[timeline])
    assert len(timeline.steps) == 18
    return sum(span.track == "steps" for span in timeline.spans)


def wrong_arguments() -> list[tuple[str, str]]:
    import abreast

    model, x, y = task()
    found = []
    for wrong in (
        lambda: abreast.Timeline(keep_steps=0),
        lambda: abreast.Timeline(sample_seconds=0),
        lambda: abreast.Timeline().on_train_begin(),
        lambda: model.fit(x, y, verbose=0, callbacks=[abreast.Timeline("/dev/full")]),
    ):
        try:
            wrong()
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found
