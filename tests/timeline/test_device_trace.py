"""`abreast.DeviceTrace` on every backend: the profiler sees the chosen steps, and never outlives its fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import RemoteError, Workers
from tests.timeline.traced import traced_steps

STEPS = {2, 3}


def test_the_chosen_steps_are_traced_and_no_others(workers: Workers, tmp_path: Path) -> None:
    said = workers.abreast.run(traced_fit, logdir=str(tmp_path), steps=(2, 4))
    assert f"the device trace is in {tmp_path}\nhint: " in said
    assert workers.abreast.run(traced_steps, logdir=str(tmp_path)) == STEPS


def test_steps_are_counted_as_they_are_taken(workers: Workers, tmp_path: Path) -> None:
    """Two epochs of 3 batches, 2 per execution: in calls of 2 and 1."""
    if workers.backend == "torch":
        pytest.skip("Keras has no steps_per_execution on PyTorch")
    workers.abreast.run(traced_fit, logdir=str(tmp_path), steps=(3, 100), steps_per_execution=2)
    assert workers.abreast.run(traced_steps, logdir=str(tmp_path)) == {3, 5}


@pytest.mark.full
def test_a_training_that_ends_inside_the_window_ends_the_trace(workers: Workers, tmp_path: Path) -> None:
    workers.abreast.run(traced_fit, logdir=str(tmp_path), steps=(2, 100))
    assert workers.abreast.run(traced_steps, logdir=str(tmp_path)) >= STEPS


def test_a_training_that_is_too_short_is_reported(workers: Workers, tmp_path: Path) -> None:
    said = workers.abreast.run(traced_fit, logdir=str(tmp_path), steps=(50, 60))
    assert "no device trace: the training had 6 steps, and the trace begins at step 50\nhint:" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.in_turn(1)
@pytest.mark.parametrize("keeps_traceback", [pytest.param(False, marks=pytest.mark.full), True])
def test_a_fit_that_fails_inside_the_window_stops_the_profiler(
    workers: Workers, tmp_path: Path, keeps_traceback: bool
) -> None:
    end = workers.abreast.run(failed_fit, logdir=str(tmp_path / "first"), keeps_traceback=keeps_traceback)
    assert end["kind"] == "RuntimeError"
    assert (end["threads_meanwhile"], end["threads"]) == (["abreast-device-trace"], [])
    assert workers.abreast.run(traced_steps, logdir=str(tmp_path / "first"))
    workers.abreast.run(traced_fit, logdir=str(tmp_path / "second"), steps=(2, 4))
    assert workers.abreast.run(traced_steps, logdir=str(tmp_path / "second")) == STEPS


def test_a_profiler_that_runs_already_is_an_error(workers: Workers, tmp_path: Path) -> None:
    with pytest.raises(
        RemoteError, match=r"profiler (cannot start|is already running)[\s\S]*hint: end the other"
    ) as caught:
        workers.abreast.run(fit_under_a_profiler, logdir=str(tmp_path))
    assert "BackendError" in caught.value.kinds


@pytest.mark.parametrize("steps", [(3, 3), (-1, 4), 7, (1.5, 3), (1, 2, 3)], ids=str)
def test_wrong_steps_are_refused(workers: Workers, steps: Any) -> None:
    with pytest.raises(RemoteError, match="hint: give the first step and the step after the last one") as caught:
        workers.abreast.run(make, steps=steps)
    assert "BackendError" in caught.value.kinds


# Bodies.


def task() -> tuple[Any, Any, Any]:
    from tests.timeline.test_timeline import task

    return task()


def traced_fit(logdir: str, steps: tuple[int, int], steps_per_execution: int = 1) -> str:
    """The output of the callback. Six steps: three in each of two epochs."""
    import contextlib
    import io

    import abreast

    model, x, y = task()
    if steps_per_execution > 1:
        model.compile("sgd", "mse", steps_per_execution=steps_per_execution)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        trace = abreast.DeviceTrace(steps=steps, logdir=logdir)
        model.fit(x[:48], y[:48], batch_size=16, epochs=2, verbose=0, callbacks=[trace])
    return said.getvalue()


def failed_fit(logdir: str, keeps_traceback: bool) -> dict[str, Any]:
    import threading
    import time

    import keras

    import abreast

    model, x, y = task()

    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "abreast-device-trace"]

    meanwhile: list[str] = []

    def fail(batch: int, logs: Any) -> None:
        if batch == 4:
            meanwhile.extend(threads())
            raise RuntimeError("planted")

    callbacks = [
        abreast.DeviceTrace(steps=(2, 100), logdir=logdir),
        keras.callbacks.LambdaCallback(on_train_batch_begin=fail),
    ]
    kept, kind = [], ""
    try:
        model.fit(x, y, batch_size=16, verbose=0, callbacks=callbacks)
    except RuntimeError as error:
        kind = type(error).__name__
        if keeps_traceback:
            kept.append(error)

    deadline = time.monotonic() + 30
    while threads() and time.monotonic() < deadline:
        time.sleep(0.05)
    return {"kind": kind, "threads": threads(), "threads_meanwhile": meanwhile}


def fit_under_a_profiler(logdir: str) -> None:
    import abreast
    from abreast.placed_models import placement_of

    model, x, y = task()
    backend: Any = placement_of(model)
    tracer = backend.backend.instruments.trace(f"{logdir}/other")
    try:
        model.fit(x, y, batch_size=16, verbose=0, callbacks=[abreast.DeviceTrace(steps=(2, 4), logdir=f"{logdir}/own")])
    finally:
        tracer.stop()


def make(steps: Any) -> None:
    import abreast

    abreast.DeviceTrace(steps=steps)
