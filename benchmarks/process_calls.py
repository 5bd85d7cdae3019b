"""Seconds that two processes of a launcher need to agree on the variables when a call begins, and those of the call.

    python benchmarks/process_calls.py [--backends jax,tensorflow] [--calls 20]

The model has 24 dense layers of 1024 x 1024, and Adam: 300 MB in 146 variables. A call is `evaluate` on one batch of 32 rows.
Between the calls nobody sets a variable. "read": what TensorFlow does where somebody has set all of them. The first three calls
are dropped as warm-up. Both processes run on the CPU of this host.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

import lines

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.launched.job import result, start_all

_WARM_UP = 3
_SCRIPT = """
import json, sys, time
import abreast
scope = abreast.DataParallel()
import keras
import numpy as np
from abreast.backend.registry import current_backend
job, reads = current_backend().job, sys.argv[1] == "read"
with scope:
    model = keras.Sequential([keras.Input((1024,)), *(keras.layers.Dense(1024) for _ in range(24)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
x = np.zeros((32, 1024), "float32")
model.fit(x, x[:, :1], batch_size=32, verbose=0)
plain, spent = job.agree_on_variables, [0.0]
def agree(*arguments):
    if reads:
        job._held.forget()
    begin = time.perf_counter()
    plain(*arguments)
    spent[0] += time.perf_counter() - begin
job.agree_on_variables = agree
agreeing, calls = [], []
for _ in range(int(sys.argv[2])):
    spent[0], begin = 0.0, time.perf_counter()
    model.evaluate(x, x[:, :1], batch_size=32, verbose=0)
    calls.append(time.perf_counter() - begin)
    agreeing.append(spent[0])
print(json.dumps([agreeing, calls]))
"""


def main() -> None:
    arguments = _arguments()
    for backend in arguments.backends.split(","):
        for what in ("as it was", "read") if backend == "tensorflow" else ("as it was",):
            _measure(backend, what, arguments.calls)


def _measure(backend: str, what: str, calls: int) -> None:
    number = str(calls + _WARM_UP)
    of_rank_0, _ = [result(each) for each in start_all(_SCRIPT, 2, what, number, backend=backend)]
    agreeing, whole = (each[_WARM_UP:] for each in of_rank_0)
    case = {"backend": backend, "variables": what, "processes": 2}
    call_seconds = statistics.median(whole)
    notes = {"warm_up": f"{_WARM_UP} calls", "call_seconds": call_seconds}
    lines.append([lines.line("process_calls", case, agreeing, "seconds per call", **notes)])
    print(f"{backend}, {what}: {1000 * statistics.median(agreeing):.1f} ms of {1000 * call_seconds:.1f} ms", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", default="jax,tensorflow")
    parser.add_argument("--calls", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main()
