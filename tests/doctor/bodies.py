"""In a worker: diagnoses one planted case, and measures its fix with other code than the doctor's. Imports Keras late.

The machine drifts: by half within a minute on a virtual machine. So the fix is measured in turns with the diagnosis.
"""

from __future__ import annotations

import re
import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any
from unittest import mock

_LONG_EPOCH = 50  # steps


def run_case(case: dict[str, Any], fix: bool = True) -> dict[str, Any]:
    """The diagnosis, and rows per second of the fix; without `fix` only the diagnosis."""
    import keras

    import abreast
    from tests.doctor import plants

    keras.backend.clear_session()
    plant = getattr(plants, case["plant"])(case["devices"], **case["settings"])
    model = plant.make_model()
    fix = fix and plant.fixed is not None
    seldom = case["cause"] == "validation"
    turns: list[float] = []
    start = time.perf_counter()
    with measured_beside(plant, turns) if fix and not seldom else nullcontext():
        diagnosis = abreast.diagnose(model, **plant.given)
    seconds = time.perf_counter() - start
    if fix and seldom and diagnosis.findings:
        turns.append(validated_seldom(model, plant.given, diagnosis))
    return {
        "rows_per_second": diagnosis.rows_per_second,
        "step_seconds": diagnosis.step_seconds,
        "findings": [asdict(finding) for finding in diagnosis.findings],
        "experiments": {one.name: (one.median_seconds, one.spread_seconds) for one in diagnosis.experiments},
        "facts": diagnosis.facts,
        "fixed_rows_per_second": statistics.median(turns) if turns else None,
        "seconds": seconds,
    }


def measured_beside(plant: Any, turns: list[float]) -> AbstractContextManager[Any]:
    """Let a turn of the fix follow each turn of the run as given; `turns` grows by rows per second."""
    from abreast.doctor import trials
    from abreast.doctor.facts import GIVEN

    model = (plant.make_fixed_model or plant.make_model)()
    plain = trials.TrialRunner.run

    def run(bench: Any, trial: Any, warmup: int, steps: int) -> Any:
        seconds = plain(bench, trial, warmup, steps)
        if trial.name == GIVEN and steps >= bench.steps:
            turns.append(plant.fixed_rows / seconds_per_step(model, plant.fixed, plant.burst))
        return seconds

    return mock.patch.object(trials.TrialRunner, "run", run)


def seconds_per_step(model: Any, arguments: dict[str, Any], burst: int = 1) -> float:
    """Seconds per step of one `fit` without its first steps, including the time between epochs if these are short."""
    import keras

    warmup = 4 + 2 * burst if burst > 1 else 4
    steps = 2 * burst if burst > 1 else 12
    epoch = -(-len(arguments["x"]) // arguments["batch_size"]) if "batch_size" in arguments else _LONG_EPOCH
    if epoch < _LONG_EPOCH:
        steps = epoch
    times: list[float] = []

    class Stop(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            times.append(time.perf_counter())
            if len(times) > steps + warmup:
                self.model.stop_training = True

    callbacks = [*arguments.get("callbacks", []), Stop()]
    model.fit(**{**arguments, "epochs": 1000, "callbacks": callbacks})
    return (times[-1] - times[warmup]) / (len(times) - 1 - warmup)


def validated_seldom(model: Any, given: dict[str, Any], diagnosis: Any) -> float:
    """Rows per second of whole epochs with the `validation_freq` of the advice, as a multiple of those of epochs as given.

    Both are measured here, one after the other, since the machine has changed its speed since the diagnosis.
    """
    advised = re.search(r"validation_freq=(\d+)", diagnosis.findings[0].advice)
    if advised is None:
        return 0.0
    every = int(advised[1])
    epochs = 2 * every if every < 8 else every
    model.fit(**given, epochs=1)
    ratios = []
    for _ in range(3):
        start = time.perf_counter()
        model.fit(**given, epochs=2)
        middle = time.perf_counter()
        model.fit(**given, validation_freq=every, epochs=epochs)
        ratios.append((middle - start) / 2 * epochs / (time.perf_counter() - middle))
    return float(statistics.median(ratios) * diagnosis.rows_per_second)
