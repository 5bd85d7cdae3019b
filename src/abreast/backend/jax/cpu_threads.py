"""Threads for simulated devices: JAX's CPU client gets as many as they need, before it starts. Imports JAX, and starts nothing.

One pool of threads does two kinds of work that wait. A device's part of a step waits in every all-reduce for the parts of all
other devices: a thread per device. The launch of a program waits while 32 programs of its device are unfinished: another thread
per device, for each Python thread that launches. The pool has a thread per core, or per device if that is more. So the launches
can hold the threads that the last parts of a step need. XLA then ends the process after 40 s ("Expected 4 threads to join the
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

# The client takes the first of these that is set, once, when it starts; else the number of cores.
VARIABLES = ("PJRT_NPROC", "NPROC")
THREADS_PER_DEVICE = 3  # its part of a step, and launches by the training thread and one more
LEAST_PER_DEVICE = 2

# XLA names the threads of its other pool so; both pools have the same size.
_THREAD_NAME = "tf_XLAEigen"
_PROVIDED: list[int] = []  # with how many threads the client starts, if we chose that
_PATIENCE_SECONDS = 2  # threads that have just started name themselves


def provide(num_devices: int) -> None:
    """Let the CPU client start with enough threads for `num_devices`; a larger number that the user set stays."""
    if num_devices > 1 and not backends_are_initialized():
        threads = max(THREADS_PER_DEVICE * num_devices, num_cores(), _set_by_user(os.environ))
        os.environ[VARIABLES[0]] = str(threads)
        _PROVIDED[:] = [threads]


def provide_for_settings() -> None:
    """The same for devices that the user asked of JAX itself, through `XLA_FLAGS` or `JAX_NUM_CPU_DEVICES`."""
    asked: Any = getattr(jax.config, "jax_num_cpu_devices", -1)
    flag = re.search(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    provide(max(asked, int(flag[1]) if flag else 1))


def check(devices: tuple[str, ...]) -> None:
    """Raises `BackendError` where simulated devices would wait for threads that the running client does not have."""
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
    """The running threads; waits for at least `least` of them, but not for long."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (count := running()) < least and time.monotonic() < deadline:
        time.sleep(0.02)
    return count


def running(tasks: Path = Path("/proc/self/task")) -> int:
    """The threads that the running client computes with; 0 where they cannot be counted."""
    return sum(_name(task) == _THREAD_NAME for task in tasks.glob("[0-9]*/comm"))


def _name(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:  # the thread has ended
        return ""


def _set_by_user(environ: Mapping[str, str]) -> int:
    """The first of the variables that is a number, as XLA reads them; 0 if none is."""
    texts = (environ.get(name, "") for name in VARIABLES)
    return next((int(text) for text in texts if text.isdecimal()), 0)
