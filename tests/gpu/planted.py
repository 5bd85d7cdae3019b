"""Bodies of parts that pass, fail, hang or die, as `benchmarks/gpu/body.py` runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from benchmarks.gpu.place import Found, Missing, Place


def passes(place: Place) -> Found:
    return Found(f"{place.devices} devices", {"simulated": place.simulated}, absent=("a second thing",))


def has_a_problem(place: Place) -> Found:
    return Found("0.5x", problems=("it is half as fast",))


def raises(place: Place) -> Found:
    print("some words before")
    raise RuntimeError("planted")


def lacks(place: Place) -> Found:
    print("a warning that says more")
    raise Missing("a thing: not installed")


def dies(place: Place) -> Found:
    print("last words", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    return Found("")


def hangs(place: Place) -> Found:
    """A part that hangs, with a child that hangs too; prints the child's process id."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(f"child {child.pid}", flush=True)
    time.sleep(600)
    return Found("")
