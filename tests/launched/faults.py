"""Kill, stop or cut off a process of a job at a moment drawn at random, and see how soon and with which error the others end.

    python -m tests.launched.faults --count 30 --backends jax torch --seed 0

prints a JSON line per trial, and at its end the counts and times. Hosts are emulated (`benchmarks/slow_links.py`; needs root).
The job trains, evaluates and predicts until somebody ends it. Of processes that are stopped or cut off the others know after
`ABREAST_HANG_SECONDS`, which is 15 here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.slow_links import DEVICE, Namespace, slow_link
from tests.launched.job import free_port, start

HANG_SECONDS = 15.0
DEATH_SECONDS = 10.0  # promised
SILENCE_SECONDS = HANG_SECONDS + 10.0
START_SECONDS = 240.0
GIVE_UP_SECONDS = 90.0
KINDS = ("kill", "stop", "cut")

SCRIPT = """
import abreast
scope = abreast.DataParallel()
import keras, numpy as np, time
with scope:
    layers = [keras.layers.Dense(16, activation="relu"), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile("adam", "mse")
x = np.random.default_rng(0).normal(size=(96, 4)).astype("float32")
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)
model.fit(x, x[:, :1], verbose=0)
model.predict(x, verbose=0)
print("ready", flush=True)
while True:
    model.fit(x, x[:, :1], batch_size=8, epochs=2, validation_data=(x, x[:, :1]), verbose=0, callbacks=[Slow()])
    model.predict(x, verbose=0)
"""


def trial(draws: random.Random, backend: str) -> dict[str, Any]:
    """One fault; `wrong` says what was not as promised, if anything."""
    kind = draws.choice(KINDS)
    size = 2 if kind == "cut" else draws.choice((2, 3))
    victim, delay = draws.randrange(size), draws.uniform(0, 4)
    found = {"backend": backend, "kind": kind, "size": size, "victim": victim, "delay_seconds": round(delay, 2)}
    with job(backend, size, two_hosts=kind == "cut") as (processes, hosts):
        for process in processes:
            wait_for_line(process)
        time.sleep(delay)
        begin = time.monotonic()
        if kind == "cut":
            hosts[victim].run("ip", "link", "set", DEVICE, "down")
        else:
            processes[victim].send_signal(signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        others = [process for rank, process in enumerate(processes) if rank != victim]
        watched = processes if kind == "cut" else others
        ended = [end_of(process, begin) for process in watched]
        known = [name_of(process, victim, kind, processes.index(process)) for process in watched]
        codes = [process.returncode for process in watched]
        if kind == "stop":
            processes[victim].kill()
    found |= {"seconds": [round(seconds, 2) for seconds, _ in ended], "codes": codes}
    limit = DEATH_SECONDS if kind == "kill" else SILENCE_SECONDS
    wrong = [
        f"{code}: {errors[-600:]}"
        for code, (_, errors), good in zip(codes, ended, known, strict=True)
        if not good(errors)
    ]
    wrong += [f"{seconds:.1f} s" for seconds, _ in ended if seconds > limit]
    return found | {"wrong": wrong}


@contextlib.contextmanager
def job(backend: str, size: int, two_hosts: bool) -> Iterator[tuple[list[subprocess.Popen[str]], Sequence[Namespace]]]:
    with contextlib.ExitStack() as stack:
        hosts: Sequence[Namespace] = stack.enter_context(slow_link()).hosts if two_hosts else ()
        port = 20000 if two_hosts else free_port()
        processes = [
            start(SCRIPT, rank, port, size, backend=backend, host=hosts[rank] if hosts else None)
            for rank in range(size)
        ]
        try:
            yield processes, hosts
        finally:
            for process in processes:
                process.kill()
                process.wait(10)


def wait_for_line(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    while (line := process.stdout.readline()) != "ready\n":  # gloo prints lines, too
        assert line, process.communicate()[1][-2000:]


def end_of(process: subprocess.Popen[str], begin: float) -> tuple[float, str]:
    """Seconds until a process has ended, and its errors."""
    try:
        _, errors = process.communicate(timeout=GIVE_UP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
        return float("inf"), errors
    return time.monotonic() - begin, errors


def name_of(process: subprocess.Popen[str], victim: int, kind: str, rank: int) -> Any:
    """Whether errors name the process that is gone, seen from this one, exactly once or with its traceback."""
    gone = 1 - rank if kind == "cut" else victim
    said = f"rank {gone} on host {platform.node()} {'has died' if kind == 'kill' else 'has been silent for'}"
    return lambda errors: process.returncode == 1 and errors.count(said) in (1, 2)


def summary(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Trials and those as promised, and the seconds until a process has ended, per backend and kind."""
    table: dict[str, Any] = {}
    for key in sorted({(each["backend"], each["kind"]) for each in found}):
        ours = [each for each in found if (each["backend"], each["kind"]) == key]
        seconds = sorted(second for each in ours for second in each["seconds"])
        table[" ".join(key)] = {
            "trials": len(ours),
            "as_promised": sum(not each["wrong"] for each in ours),
            "p50_seconds": round(statistics.median(seconds), 2),
            "p99_seconds": round(seconds[min(len(seconds) - 1, int(0.99 * len(seconds)))], 2),
            "max_seconds": seconds[-1],
        }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--backends", nargs="+", default=["jax", "torch"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ["ABREAST_HANG_SECONDS"] = str(HANG_SECONDS)
    found = []
    for number in range(options.count):
        draws = random.Random(f"{options.seed} {number}")
        found.append({"trial": number, **trial(draws, options.backends[number % len(options.backends)])})
        print(json.dumps(found[-1]), flush=True)
    print(
        json.dumps({"seed": options.seed, "wrong": sum(bool(each["wrong"]) for each in found), **summary(found)}),
        flush=True,
    )


if __name__ == "__main__":
    main()
