"""Seconds for batches that all differ in length, for plain Keras and abreast. JAX and TensorFlow trace or compile each length.

`python benchmarks/new_shapes.py`, on one device and on four simulated ones; one JSON line per backend. Each fit runs in
its own process, after one batch of another length.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

LENGTHS = 8
SIDES = {"plain": 0, "one_device": 1, "four_devices": 4}  # numbers of devices that abreast places on


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--fit"]:
        print(seconds(int(arguments[1])))
        return
    for backend in arguments or ["jax", "tensorflow", "torch"]:
        found = {f"{side}_seconds": round(_run(backend, devices), 2) for side, devices in SIDES.items()}
        print(json.dumps({"backend": backend, "lengths": LENGTHS, **found}), flush=True)


def _run(backend: str, devices: int) -> float:
    environment = {**os.environ, "KERAS_BACKEND": backend}
    command = [sys.executable, __file__, "--fit", str(devices)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def seconds(devices: int) -> float:
    """Seconds of a fit on one batch of each length, with abreast on `devices` devices, or with plain Keras for 0."""
    import keras

    import abreast

    if devices:
        abreast.use_cpu_devices(devices)
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((None,)), layers.Embedding(100, 8), layers.GlobalAveragePooling1D(), layers.Dense(1)]
    )
    model.compile("adam", "mse")
    if devices:
        abreast.parallelize(model, devices)
    model.fit(_batches([5]), verbose=0)
    start = time.perf_counter()
    model.fit(_batches(range(10, 10 + LENGTHS)), verbose=0)
    return time.perf_counter() - start


def _batches(lengths: Any) -> Iterator[tuple[Any, Any]]:
    import numpy as np

    for length in lengths:
        yield np.ones((8, length), "int32"), np.ones((8, 1), "float32")


if __name__ == "__main__":
    main(sys.argv[1:])
