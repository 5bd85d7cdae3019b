"""Seconds from Ctrl-C to the prompt, in a `fit` with plain Keras and on four simulated devices; and after a second Ctrl-C.

    python benchmarks/interrupt.py [--backends jax,torch] [--rounds 3]

Each sample is a fresh process that trains until it is interrupted; the result is the median of several. "second" counts from a
second Ctrl-C, 0.3 s after the first. A process that loses its interrupt is run again.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time

import lines

_SCRIPT = """
import sys
import abreast
abreast.use_cpu_devices(4)
import keras, numpy as np

class Say(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 20:
            print("trains", flush=True)

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
model.compile("sgd", "mse")
if sys.argv[1] == "placed":
    abreast.parallelize(model, devices=4)
rows = np.ones((8, 4), "float32")
batches = ((rows, rows[:, :3]) for _ in iter(int, 1))
model.fit(batches, steps_per_epoch=10**9, verbose=0, callbacks=[Say()])
"""
_BETWEEN_SECONDS = 0.3
_LIMIT_SECONDS = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="jax,tensorflow,torch")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for backend in options.backends.split(","):
        for how in ("plain", "placed"):
            for ctrl_c in ("first", "second"):
                samples = [seconds(backend, how, ctrl_c == "second") for _ in range(options.rounds)]
                case = {"backend": backend, "fit": how, "ctrl_c": ctrl_c}
                lines.append([lines.line("interrupt", case, samples, "s")])
                print(backend, how, ctrl_c, round(statistics.median(samples), 2), flush=True)


def seconds(backend: str, how: str, twice: bool) -> float:
    """Seconds from the last Ctrl-C to the end of the process."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "KERAS_BACKEND": backend},
    )
    assert process.stdout is not None and process.stdout.readline().strip() == b"trains"
    time.sleep(_BETWEEN_SECONDS)
    for _ in range(2 if twice else 1):
        began = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        if twice:
            time.sleep(_BETWEEN_SECONDS)
    try:
        process.wait(_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:  # a KeyboardInterrupt inside of a destructor is lost: Python goes on
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return seconds(backend, how, twice)
    return time.monotonic() - began - (_BETWEEN_SECONDS if twice else 0.0)


if __name__ == "__main__":
    main()
