"""`abreast.Timeline` on real devices: parts that add up, devices that computed, samples of the driver, and its cost."""

from __future__ import annotations

import importlib
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu.place import Found, Place

_STEPS = 300
_SAMPLE_SECONDS = 0.05
_TURNS = 45
_MOST_GAP_SECONDS = 1e-4
_MOST_COST = 1.5


def run(place: Place) -> Found:
    facts = _fit(place)
    timeline_cost: Any = importlib.import_module("timeline_cost")
    cell = {"backend": place.backend, "devices": place.devices, "gpu": not place.simulated, "turns": _TURNS}
    facts["cost"] = _ratio(timeline_cost.measure(cell))
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in facts["shares"].items() if share >= 0.01)
    busy = "".join(f"; {name} {100 * share:.0f} % busy" for name, share in facts["busy"].items() if share is not None)
    return Found(f"costs {facts['cost']:.3f}x; {shares}{busy}", facts, tuple(problems(facts, place)))


def problems(facts: dict[str, Any], place: Place) -> list[str]:
    found = []
    if facts["largest_gap_seconds"] > _MOST_GAP_SECONDS:
        found.append(f"the parts of a step miss its time by {1000 * facts['largest_gap_seconds']:.2f} ms")
    expected = place.names[:1] if place.backend == "torch" else place.names  # only rank 0 is seen
    if facts["devices"] != list(expected):
        found.append(f"it names {', '.join(facts['devices'])}, not {', '.join(expected)}")
    found += [f"{name} did not compute" for name, seconds in facts["compute_seconds"].items() if not seconds > 0]
    if place.kind == "gpu":
        sampled = {name for name, share in facts["busy"].items() if share is not None}
        found += [f"no utilisation of {name} was sampled" for name in place.names if name not in sampled]
    if place.judges_time and facts["cost"] > _MOST_COST:
        found.append(f"a step takes {facts['cost']:.2f} times as long with it")
    return found


def _fit(place: Place) -> dict[str, Any]:
    import numpy as np

    import abreast

    place.prepare()
    model, x, y = _task(place)
    timeline = abreast.Timeline(sample_seconds=_SAMPLE_SECONDS)
    model.fit(x, y, batch_size=64 * place.devices, epochs=2, verbose=0, callbacks=[timeline])
    steps, summary = timeline.steps, timeline.summary(warm_up_steps=5)
    with tempfile.TemporaryDirectory() as folder:
        trace_bytes = timeline.write_trace(Path(folder) / "trace.json").stat().st_size
    gaps = np.abs(sum(steps[name] for name in summary["parts"]) - steps["wall"])
    return {
        "num_steps": len(steps),
        "largest_gap_seconds": float(gaps.max()),
        "devices": list(timeline.devices),
        "compute_seconds": {name: each["median"] for name, each in summary["compute_seconds"].items()},
        "shares": {name: each["share"] for name, each in summary["parts"].items() if each is not None},
        "step_seconds": summary["step_seconds"]["median"],
        "busy": {name: each["utilisation"] for name, each in summary["samples"].items()},
        "memory_bytes": {name: each["memory_bytes"] for name, each in summary["samples"].items()},
        "notes": summary["notes"],
        "trace_bytes": trace_bytes,
    }


def _task(place: Place) -> tuple[Any, Any, Any]:
    """A model of wide layers, and data for its steps."""
    import keras
    import numpy as np

    import abreast

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(512, activation="relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((256,)), *layers, keras.layers.Dense(10)])
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).standard_normal((64 * place.devices * _STEPS // 2, 256), dtype=np.float32)
    return abreast.parallelize(model, place.devices), x, x[:, :10].copy()


def _ratio(samples: dict[str, Any]) -> float:
    """The time of steps in turns with a timeline over the time of steps in the turns around them."""
    medians = {side: [statistics.median(turn) for turn in samples[side]] for side in ("without", "with", "control")}
    around = map(statistics.fmean, zip(medians["without"], medians["control"], strict=False))
    return float(statistics.median(one / other for one, other in zip(medians["with"], around, strict=False)))
