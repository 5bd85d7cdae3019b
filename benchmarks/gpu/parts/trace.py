"""`abreast.DeviceTrace` on real devices: the chosen steps are in its files, with the devices' work."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu.place import Found, Place
from tests.timeline.traced import device_events, traced_steps

_STEPS = (4, 7)


def run(place: Place) -> Found:
    place.prepare()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        said = _traced_fit(place, folder)
        steps, events = traced_steps(folder), device_events(folder)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    facts = {"steps": sorted(steps), "device_events": events, "bytes": size, "said": said}
    return Found(f"steps {sorted(steps)}, {events} events on devices", facts, tuple(problems(facts, place)))


def problems(facts: dict[str, Any], place: Place) -> list[str]:
    expected = list(range(*_STEPS))
    found = [f"steps {facts['steps']} are traced, not {expected}"] if facts["steps"] != expected else []
    if place.kind == "gpu" and not facts["device_events"]:
        found.append("nothing that a GPU did is in the trace")
    return found


def _traced_fit(place: Place, folder: str) -> str:
    import keras
    import numpy as np

    import abreast

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Conv2D(16, 3, activation="relu"), keras.layers.GlobalAveragePooling2D()]
    model = keras.Sequential([keras.Input((32, 32, 3)), *layers, keras.layers.Dense(10)])
    model.compile("adam", "mse")
    abreast.parallelize(model, place.devices)
    x = np.random.default_rng(0).standard_normal((320, 32, 32, 3), dtype=np.float32)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        trace = abreast.DeviceTrace(steps=_STEPS, logdir=folder)
        model.fit(x, x[:, 0, :10, 0].copy(), batch_size=32, verbose=0, callbacks=[trace])
    return said.getvalue()
