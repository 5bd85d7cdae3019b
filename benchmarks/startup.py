"""Time to start: seconds from `import abreast` to the end of the first step, each time in a fresh process.

    python benchmarks/startup.py [--quick] [--backends jax,torch] [--devices 1,4] [--processes 2,8] [--repeats 5]

With `--processes`, so many processes start together, as a launcher starts them, and the last one's seconds count.

Nothing is dropped as warm-up, since the start is measured (files are in the page cache from the second repeat on). Plain Keras on
one device is measured beside it. The script also measures `import abreast` alone, and fails if that takes 0.1 s or loads a
framework.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from typing import Any

import lines

_FRAMEWORKS = ("keras", "jax", "tensorflow", "torch", "numpy")
_IMPORT_SECONDS = 0.1
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}

_IMPORT = f"""
import json, sys, time
start = time.perf_counter()
import abreast
seconds = time.perf_counter() - start
print(json.dumps([seconds, [name for name in {_FRAMEWORKS!r} if name in sys.modules]]))
"""
_FIRST_STEP = """
import sys, time
start = time.perf_counter()
num_devices, launched = int(sys.argv[1]), "RANK" in __import__("os").environ
if num_devices:
    import abreast
    abreast.use_cpu_devices(num_devices)
if launched:
    abreast.DataParallel()  # joins the job before a model is made
import numpy as np
import keras
model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
if num_devices:
    abreast.parallelize(model, "auto" if launched else num_devices)
ready = time.perf_counter()
loss = model.train_on_batch(np.ones((64, 32), "float32"), np.zeros(64, "int32"))
float(np.asarray(loss))
end = time.perf_counter()
print(end - start, end - ready, flush=True)
"""


def main() -> None:
    arguments = _arguments()
    _check_import(arguments.repeats)
    for backend in arguments.backends:
        base = 0.0
        for size in arguments.processes:
            _report_processes(backend, size, [_seconds_of_processes(backend, size) for _ in range(arguments.repeats)])
        for num_devices in (0, *arguments.devices):
            samples = [_seconds_to_first_step(backend, num_devices) for _ in range(arguments.repeats)]
            base = _report(backend, num_devices, samples, base)


def _check_import(repeats: int) -> None:
    done = [json.loads(_python(_IMPORT)) for _ in range(max(5, repeats))]
    seconds = [one for one, _ in done]
    lines.append([lines.line("startup", {"what": "import abreast"}, seconds, "seconds", warm_up="none")])
    print(f"import abreast: {1000 * statistics.median(seconds):.1f} ms, loads no framework")
    loaded = done[0][1]
    assert not loaded, f"import abreast loads {loaded}"
    assert statistics.median(seconds) < _IMPORT_SECONDS, f"import abreast takes {statistics.median(seconds):.3f} s"


def _seconds_to_first_step(backend: str, num_devices: int) -> tuple[float, float]:
    """Seconds from the first import to the end of the first step, and the part of the step with its starts and compilations."""
    whole, step = _python(_FIRST_STEP, str(num_devices), KERAS_BACKEND=backend).split()
    return float(whole), float(step)


def _seconds_of_processes(backend: str, size: int) -> float:
    """Seconds from the start of the processes of a job to the end of the first step in the last of them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "WORLD_SIZE": f"{size}",
        "LOCAL_WORLD_SIZE": f"{size}",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": f"{port}",
    }
    start = time.perf_counter()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _FIRST_STEP, "1"],
            env=os.environ | _QUIET | shared | {"KERAS_BACKEND": backend, "RANK": f"{rank}", "LOCAL_RANK": f"{rank}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    seconds = []
    for process in processes:
        assert process.stdout is not None
        seconds.append((process.stdout.readline() and time.perf_counter()) - start)
    codes = [process.wait(60) for process in processes]
    assert codes == [0] * size, f"the processes ended with {codes}"
    return max(seconds)


def _report_processes(backend: str, size: int, seconds: list[float]) -> None:
    case = {"what": "first step", "backend": backend, "processes": size}
    lines.append([lines.line("startup", case, seconds, "seconds", warm_up="none")])
    median = statistics.median(seconds)
    print(f"{backend:<11}{size} processes {median:6.2f} s until the last has ended its first step", flush=True)


def _python(code: str, *arguments: str, **variables: str) -> str:
    environment = os.environ | _QUIET | variables
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    return done.stdout.splitlines()[-1]


def _report(backend: str, num_devices: int, samples: list[tuple[float, float]], base_seconds: float) -> float:
    side = "abreast" if num_devices else "keras"
    case: dict[str, Any] = {"what": "first step", "backend": backend, "devices": num_devices or 1, "side": side}
    whole, steps = zip(*samples, strict=True)
    step_seconds = round(statistics.median(steps), 4)
    lines.append([lines.line("startup", case, whole, "seconds", of_which_first_call=step_seconds, warm_up="none")])
    median = statistics.median(whole)
    added = f"  {median - base_seconds:+.2f} s to plain Keras" if num_devices else ""
    print(
        f"{backend:<11}{case['devices']} device(s)  {side:<8}{median:6.2f} s to the end of the first step{added}",
        flush=True,
    )
    return base_seconds or median


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", type=lambda text: text.split(","), default=("jax", "tensorflow", "torch"))
    parser.add_argument("--devices", type=lambda text: [int(part) for part in text.split(",")], default=(1, 4))
    parser.add_argument("--processes", type=lambda text: [int(part) for part in text.split(",")], default=())
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--quick", action="store_true", help="once each, for a first look")
    arguments = parser.parse_args()
    arguments.repeats = arguments.repeats or (1 if arguments.quick else 5)
    return arguments


if __name__ == "__main__":
    main()
