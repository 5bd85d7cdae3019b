"""Looking at threads never stops the process, also when the garbage collector would run meanwhile."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from abreast.threads import frames

# Each collection frees an object that starts a thread; and each look makes frame objects, so that collections begin in it.
_SCRIPT = """
import contextlib, gc, sys, threading, time
from abreast.threads import frames

class StartsThread:
    def __init__(self):
        self.me = self
    def __del__(self):
        threading.Thread(target=int).start()

def wait():
    time.sleep(0.001)

def work():
    while not done:
        wait()

done = False
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
look = frames if sys.argv[1] == "frames" else lambda: contextlib.nullcontext(sys._current_frames())
gc.set_threshold(1)
for _ in range(300):
    StartsThread()
    with look() as found:
        assert threads[0].ident in found
done = True
print("looked", gc.isenabled())
"""


def test_looking_at_frames_does_not_deadlock_with_the_garbage_collector() -> None:
    assert _run("frames").stdout == "looked True\n"


@pytest.mark.skipif(sys.version_info >= (3, 11, 9), reason="mended in Python 3.11.9")
def test_without_the_precaution_looking_at_frames_deadlocks() -> None:
    """The negative control."""
    with pytest.raises(subprocess.TimeoutExpired):
        _run("plain", timeout_seconds=4)


@pytest.mark.parametrize(("look", "collections"), [(frames, 0), (lambda: nullcontext(sys._current_frames()), 1)])
def test_nothing_is_collected_on_the_way_along_a_stack(
    look: Callable[[], AbstractContextManager[Any]], collections: int, deep_thread: int, seldom: None
) -> None:
    """The second is the negative control: a collection there may let the other thread end the call that is looked at."""
    with look() as found:
        phases: list[str] = []
        gc.callbacks.append(lambda phase, info: phases.append(phase))
        try:
            gc.set_threshold(1)
            frame = found[deep_thread]
            while frame is not None:
                frame = frame.f_back
        finally:
            gc.callbacks.pop()
    assert min(len(phases), 1) == collections


def test_two_threads_that_look_at_frames_keep_the_collector_off() -> None:
    """The first one to leave would turn it on, while the other one still goes along a stack."""
    inside, leave = threading.Event(), threading.Event()

    def look() -> None:
        with frames():
            inside.set()
            leave.wait(60)

    other = threading.Thread(target=look)
    with frames():
        other.start()
        inside.wait(0.2)  # it must not come in
    inside.wait(60)
    collects = gc.isenabled()
    leave.set()
    other.join()
    assert not collects
    assert gc.isenabled()


def test_a_fork_while_a_thread_looks_leaves_its_child_free() -> None:
    inside = threading.Event()

    def look() -> None:
        with frames():
            inside.set()
            time.sleep(0.2)

    other = threading.Thread(target=look)
    other.start()
    inside.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        with frames():
            pass
        os._exit(0 if gc.isenabled() else 1)
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def seldom() -> Iterator[None]:
    """Collections as they were, at the end."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


@pytest.fixture
def deep_thread() -> Iterator[int]:
    """The identifier of a thread that waits in a deep recursion."""
    ready, done = threading.Event(), threading.Event()

    def recurse(depth: int) -> None:
        if depth:
            recurse(depth - 1)
        else:
            ready.set()
            done.wait(60)

    thread = threading.Thread(target=recurse, args=(50,))
    thread.start()
    ready.wait(60)
    yield thread.ident or 0
    done.set()
    thread.join()


def _run(what: str, timeout_seconds: float = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _SCRIPT, what]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=True)
