"""In a worker: one planted case diagnosed, and its fix measured by other code than the doctor's. Imports Keras late."""

from __future__ import annotations

import re
import statistics
import time
from dataclasses import asdict
from typing import Any


def run_case(case: dict[str, Any]) -> dict[str, Any]:
    import keras

    import abreast
    from tests.doctor import plants

    keras.backend.clear_session()
    plant = getattr(plants, case["plant"])(case["devices"], **case["settings"])
    start = time.perf_counter()
    diagnosis = abreast.diagnose(plant.model, **plant.given)
    seconds = time.perf_counter() - start
    fixed = None
    if plant.fixed is not None and diagnosis.findings:
        if case["cause"] == "validation":
            fixed = validated_seldom(plant, diagnosis)
        else:
            model = plant.fixed_model or plant.model
            fixed = plant.fixed_rows / seconds_per_step(model, plant.fixed)
    return {
        "rows_per_second": diagnosis.rows_per_second,
        "step_seconds": diagnosis.step_seconds,
        "findings": [asdict(finding) for finding in diagnosis.findings],
        "experiments": {one.name: (one.median_seconds, one.spread_seconds) for one in diagnosis.experiments},
        "facts": diagnosis.facts,
        "fixed_rows_per_second": fixed,
        "seconds": seconds,
    }


def seconds_per_step(model: Any, arguments: dict[str, Any], steps: int = 12, turns: int = 3) -> float:
    """The median of some turns of `fit`, each without its first steps; by no code of the doctor's."""
    import keras

    class Stop(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            times.append(time.perf_counter())
            if len(times) > steps + warmup:
                self.model.stop_training = True

    warmup, found = 5, []
    for _ in range(turns):
        times: list[float] = []
        callbacks = [*arguments.get("callbacks", []), Stop()]
        model.fit(**{**arguments, "epochs": 1000, "callbacks": callbacks})
        found.append((times[-1] - times[warmup]) / (len(times) - 1 - warmup))
    return statistics.median(found)


def validated_seldom(plant: Any, diagnosis: Any) -> float:
    """Rows per second of whole epochs with the `validation_freq` of the advice."""
    every = int(re.search(r"validation_freq=(\d+)", diagnosis.findings[0].advice)[1])  # type: ignore[index]
    epochs = max(every, 2 * every if every < 10 else every)
    plant.model.fit(**plant.given, epochs=1)
    start = time.perf_counter()
    plant.model.fit(**plant.given, validation_freq=every, epochs=epochs)
    return float(len(plant.given["x"]) * epochs / (time.perf_counter() - start))
