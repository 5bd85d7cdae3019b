"""Threads for simulated devices: JAX's CPU client gets as many as they need, before it starts. Imports JAX, and starts nothing.

One thread pool runs two kinds of work that wait. A device's part of a step waits in every all-reduce for the parts of all other
devices: one thread per device. The launch of a program waits while 32 programs of its device are unfinished: one more thread per
device for each Python thread that launches. By default the pool has a thread per core, or per device if that is more. So launches
can occupy the threads that the last parts of a step need. XLA then ends the process after 40 s ("Expected 4 threads to join the
rendezvous, but only 3 of them arrived on time").
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from jax._src.xla_bridge import backends_are_initialized

from abreast.cpu import num_cores
from abreast.errors import BackendError

# The client reads the first of these that is set, once, when it starts; if none is, it uses the number of cores.
VARIABLES = ("PJRT_NPROC", "NPROC")
THREADS_PER_DEVICE = 3  # its part of a step, and launches by the training thread and one more
LEAST_PER_DEVICE = 2

# Name of the threads in XLA's other pool; both pools have the same size.
_THREAD_NAME = "tf_XLAEigen"
_PROVIDED: list[int] = []  # the client's number of threads, if abreast chose it
_PATIENCE_SECONDS = 2  # new threads need a moment to set their names


def provide(num_devices: int) -> None:
    """Make the CPU client start with enough threads for `num_devices`; a larger number set by the user stays."""
    if num_devices > 1 and not backends_are_initialized():
        threads = max(THREADS_PER_DEVICE * num_devices, num_cores(), _set_by_user(os.environ))
        os.environ[VARIABLES[0]] = str(threads)
        _PROVIDED[:] = [threads]


def provide_for_settings() -> None:
    """Provide threads for the devices that the user requested through `XLA_FLAGS` or `JAX_NUM_CPU_DEVICES`."""
    asked: Any = getattr(jax.config, "jax_num_cpu_devices", -1)
    flag = re.search(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    provide(max(asked, int(flag[1]) if flag else 1))


def check(devices: tuple[str, ...]) -> None:
    """Raise `BackendError` if the running client has too few threads for the simulated devices, which would wait for ever."""
    if len(devices) < 2 or not devices[0].startswith("cpu:") or not backends_are_initialized():
        return
    num_devices = len(devices)
    least = LEAST_PER_DEVICE * num_devices
    threads = _PROVIDED[0] if _PROVIDED else _counted(least) or _set_by_user(os.environ) or num_cores()
    if threads < least:
        enough = THREADS_PER_DEVICE * num_devices
        raise BackendError(
            f"JAX has already started, with {threads} threads for {num_devices} simulated devices: a step could wait for ever",
            f"call abreast.use_cpu_devices({num_devices}) before anything is computed, or set {VARIABLES[0]}={enough} in the "
            "environment before JAX starts",
        )


def _counted(least: int) -> int:
    """The number of running threads; waits up to 2 s for `least` of them."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (count := running()) < least and time.monotonic() < deadline:
        time.sleep(0.02)
    return count


def running(tasks: Path = Path("/proc/self/task")) -> int:
    """The number of threads with which the running client computes; 0 if they cannot be counted."""
    return sum(_name(task) == _THREAD_NAME for task in tasks.glob("[0-9]*/comm"))


def _name(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:  # the thread has ended
        return ""


def _set_by_user(environ: Mapping[str, str]) -> int:
    """The value of the first variable that is a number, as XLA reads them; 0 if none is."""
    texts = (environ.get(name, "") for name in VARIABLES)
    return next((int(text) for text in texts if text.isdecimal()), 0)
