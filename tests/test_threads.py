"""Looking at threads never stops the process, also when the garbage collector would run meanwhile."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Each collection frees an object that starts a thread; and each look makes frame objects, so that collections begin in it.
_SCRIPT = """
import gc, sys, threading, time
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
look = frames if sys.argv[1] == "frames" else sys._current_frames
gc.set_threshold(1)
for _ in range(300):
    StartsThread()
    assert threads[0].ident in look()
done = True
print("looked", gc.isenabled())
"""


def test_looking_at_frames_does_not_deadlock_with_the_garbage_collector() -> None:
    assert _run("frames").stdout == "looked True\n"


@pytest.mark.skipif(sys.version_info >= (3, 11, 9), reason="mended in Python 3.11.9")
def test_without_care_it_does() -> None:
    """The negative control."""
    with pytest.raises(subprocess.TimeoutExpired):
        _run("plain", timeout_seconds=10)


def _run(what: str, timeout_seconds: float = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _SCRIPT, what]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=True)
