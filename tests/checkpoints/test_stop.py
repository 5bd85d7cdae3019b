"""Signals that ask for an end: 75 at once, or after the step in a fit; a second one; handlers of the script; other threads."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.checkpoints.running import running
from tests.harness.folder import Folder, Result
from tests.harness.installed import skip_unless_installed

RUN = ("-m", "abreast", "run", "--checkpoint", "ckpt")
BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=lambda number: number.name)

# A fit of 20 steps, which writes a checkpoint where a signal asks for it, as the real one does.
FIT = """
import signal, sys, time
from abreast.checkpoints import stop

def fit(seconds=0.1):
    with stop.in_fit():
        for step in range(20):
            print("step", step)
            end = time.monotonic() + seconds
            while time.monotonic() < end:  # a signal does not shorten a step
                time.sleep(0.01)
            if stop.requested():
                stop.end(f"step-{step}")
"""


# While a call into C does not return, as of a compiler, Python calls no handler. This one waits for a lock that it has itself.
LONG_CALL = """
import ctypes
lock = ctypes.create_string_buffer(64)
print("ready")
for _ in range(2):
    ctypes.CDLL(None).pthread_mutex_lock(lock)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def stopped(folder: Folder, text: str, line: str, number: signal.Signals = signal.SIGTERM) -> Result:
    """The end of a script with checkpoints that gets a signal once it has printed a line."""
    with running(folder, *RUN, folder.write("train.py", text)) as script_runs:
        script_runs.wait_for(line)
        script_runs.send(number)
        return script_runs.end(10)


@BOTH
def test_a_signal_outside_of_a_fit_ends_the_script_at_once_with_75(folder: Folder, number: signal.Signals) -> None:
    end = stopped(folder, "import time\nprint('ready')\ntime.sleep(60)\n", "ready", number)
    assert end.code == 75
    assert end.err == f"abreast: {number.name} asked for an end outside of a fit: what was saved before counts\n"


# C++ that initializes an extension module may abort where Python code that it calls raises an exception.
IN_AN_EXTENSION = """
import importlib.util, os, signal, sys, time, types
from importlib.machinery import ExtensionFileLoader

class Loader(ExtensionFileLoader):
    def create_module(self, spec):
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            end = time.monotonic() + float(sys.argv[1])
            while time.monotonic() < end:
                time.sleep(0.01)
        except BaseException:
            os._exit(3)
        print("initialized")
        return types.ModuleType(spec.name)

importlib.util.module_from_spec(importlib.util.spec_from_loader("own", Loader("own", "own.so")))
time.sleep(60)
"""


@pytest.mark.parametrize("seconds", ["0.2", "2.5"])
def test_a_signal_waits_until_an_extension_module_is_initialized(folder: Folder, seconds: str) -> None:
    with running(folder, *RUN, folder.write("train.py", IN_AN_EXTENSION), seconds) as script_runs:
        end = script_runs.end(20)
    assert (end.code, end.out) == (75, "initialized\n")
    assert end.err == "abreast: SIGTERM asked for an end outside of a fit: what was saved before counts\n"


# The signal comes in the middle of an initialization of a framework, which calls Python code.
IN_A_FRAMEWORK = """
import os, signal, sys
from importlib.machinery import ExtensionFileLoader
from abreast.checkpoints.extensions import initializes_extension
left = 30

def count(frame, event, argument):
    global left
    if event == "call" and initializes_extension(frame.f_back):
        left -= any(each.startswith(sys.argv[1]) for each in extensions(frame))
        if left == 0:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGTERM)

def extensions(frame):
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), ExtensionFileLoader):
            yield getattr(frame.f_locals["self"], "name", "")
        frame = frame.f_back

sys.setprofile(count)
__import__(sys.argv[2])
sys.setprofile(None)
print("never", left)
"""


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("extension", "module"),
    [
        pytest.param("jaxlib._hlo", "jax", marks=pytest.mark.jax),
        pytest.param("torch", "torch", marks=pytest.mark.torch),
    ],
)
def test_a_signal_while_a_framework_is_imported(folder: Folder, extension: str, module: str) -> None:
    skip_unless_installed(module)
    with running(folder, *RUN, folder.write("train.py", IN_A_FRAMEWORK), extension, module) as script_runs:
        end = script_runs.end(60)
    assert (end.code, end.out) == (75, ""), end.err


@BOTH
def test_a_signal_in_a_fit_ends_the_script_after_the_step_with_75(folder: Folder, number: signal.Signals) -> None:
    end = stopped(folder, f"{FIT}\nfit()\n", "step 3", number)
    last = int(end.out.split()[-1])
    assert (end.code, last in (3, 4)) == (75, True)
    assert (
        end.err
        == f"abreast: {number.name} asked for an end: saved as step-{last}; the same command goes on from there\n"
    )


def test_without_checkpoints_a_signal_has_its_default_action(folder: Folder) -> None:
    script = folder.write("train.py", "import time\nprint('ready')\ntime.sleep(60)\n")
    with running(folder, *RUN[:3], script) as script_runs:
        script_runs.wait_for("ready")
        script_runs.send(signal.SIGTERM)
        assert script_runs.end(10).code == -signal.SIGTERM


def test_a_fit_with_checkpoints_of_its_own_takes_signals_while_it_runs(folder: Folder) -> None:
    script = folder.write("train.py", f"{FIT}\nprint('ready')\nfit()\n")
    with running(folder, script) as script_runs:
        script_runs.wait_for("step 3")
        script_runs.send(signal.SIGTERM)
        assert script_runs.end(10).code == 75


def test_after_the_fit_signals_have_their_old_action(folder: Folder) -> None:
    script = folder.write("train.py", f"{FIT}\nfit(0)\nprint(repr(signal.getsignal(signal.SIGTERM)))\n")
    assert folder.python(script).out.splitlines()[-1] == repr(signal.Handlers.SIG_DFL)


@pytest.mark.in_turn
def test_a_second_signal_ends_the_script_at_once(folder: Folder) -> None:
    script = folder.write("train.py", f"{FIT}\nfit(60)\n")
    with running(folder, *RUN, script) as script_runs:
        script_runs.wait_for("step 0")
        script_runs.send(signal.SIGTERM)
        time.sleep(1.5)
        script_runs.send(signal.SIGTERM)
        assert script_runs.end(5).code == -signal.SIGTERM


@pytest.mark.in_turn
def test_a_second_signal_ends_a_long_call_at_once(folder: Folder) -> None:
    script = folder.write("train.py", f"{FIT}\nwith stop.in_fit():\n    exec({LONG_CALL!r})\n")
    with running(folder, *RUN, script) as script_runs:
        script_runs.wait_for("ready")
        script_runs.send(signal.SIGUSR1)
        time.sleep(2)
        script_runs.send(signal.SIGTERM)
        assert script_runs.end(5).code == -signal.SIGTERM


def test_the_same_signal_twice_within_a_second_counts_once(folder: Folder) -> None:
    """A shell or Slurm sends it to the group, and a supervisor passes it on."""
    script = folder.write("train.py", f"{FIT}\nfit(0.5)\n")
    with running(folder, *RUN, script) as script_runs:
        script_runs.wait_for("step 0")
        for _ in range(3):
            script_runs.send(signal.SIGTERM)
            time.sleep(0.02)
        assert script_runs.end(10).code == 75


@pytest.mark.in_turn
def test_a_long_call_outside_of_a_fit_is_not_waited_for(folder: Folder) -> None:
    assert stopped(folder, LONG_CALL, "ready").code == 75


def test_a_handler_of_the_script_is_called_too_in_a_fit_and_that_is_said(folder: Folder) -> None:
    own = "signal.signal(signal.SIGTERM, lambda number, frame: print('own handler', number))\nfit()\n"
    end = stopped(folder, FIT + own, "step 3")
    assert end.code == 75
    assert end.out.count("own handler 15") == 1
    assert end.err.startswith("abreast: the script handles SIGTERM itself: in a fit, its handler is called, and")
    assert "abreast: SIGTERM asked for an end: saved as step-" in end.err


def test_a_handler_of_the_script_that_calls_the_one_before_it_is_called_once(folder: Folder) -> None:
    own = """
before = signal.getsignal(signal.SIGTERM)
def handler(number, frame):
    print("own handler")
    before(number, frame)
signal.signal(signal.SIGTERM, handler)
fit()
"""
    end = stopped(folder, FIT + own, "step 3")
    assert (end.code, end.out.count("own handler")) == (75, 1)


@pytest.mark.in_turn
def test_a_handler_of_the_script_that_exits_has_its_way(folder: Folder) -> None:
    own = "signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(3))\nfit()\n"
    assert stopped(folder, FIT + own, "step 3").code == 3


@pytest.mark.in_turn
def test_outside_of_fits_a_handler_of_the_script_is_alone_and_the_next_fit_does_not_begin(folder: Folder) -> None:
    own = """
signal.signal(signal.SIGTERM, lambda number, frame: print("own handler"))
fit(0)
print("ready")
time.sleep(1)
print("still here")
fit(0)
print("not here")
"""
    end = stopped(folder, FIT + own, "ready")
    assert (end.code, end.out.splitlines()[-2:]) == (75, ["own handler", "still here"])


@pytest.mark.in_turn
def test_a_signal_that_the_script_ignored_ends_a_fit(folder: Folder) -> None:
    """A shell with `trap '' TERM` lets its children ignore the signal."""
    assert stopped(folder, f"{FIT}\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nfit()\n", "step 3").code == 75


def test_a_script_that_catches_the_end_does_not_end_as_if_all_was_well(folder: Folder) -> None:
    end = stopped(folder, f"{FIT}\ntry:\n    fit()\nexcept BaseException:\n    print('caught')\n", "step 3")
    assert (end.code, end.out.splitlines()[-1]) == (75, "caught")


@pytest.mark.in_turn
def test_a_fit_in_another_thread_ends_the_process(folder: Folder) -> None:
    own = "import threading\nthread = threading.Thread(target=fit)\nthread.start()\nthread.join()\nprint('not here')\n"
    end = stopped(folder, FIT + own, "step 3")
    assert (end.code, "not here" in end.out) == (75, False)


@pytest.mark.in_turn
def test_a_forked_child_takes_its_own_signals_with_their_default_action(folder: Folder) -> None:
    own = """
import multiprocessing
children = [multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,)) for _ in range(20)]
for child in children:
    child.start()
    child.terminate()
    child.join(10)
    print(child.exitcode)
time.sleep(2)
fit(0)
"""
    done = folder.abreast("run", "--checkpoint", "ckpt", folder.write("train.py", FIT + own))
    assert (done.code, done.out.splitlines()[:20]) == (0, ["-15"] * 20)


@pytest.mark.in_turn
def test_a_handler_of_a_framework_is_replaced_when_a_fit_begins(folder: Folder) -> None:
    """As that of JAX's service for preemption, which Python does not know."""
    own = "import ctypes\nctypes.CDLL(None).signal(15, 1)  # ignore\nfit()\n"
    assert stopped(folder, FIT + own, "step 3").code == 75


def test_ctrl_c_ends_the_script_as_ever(folder: Folder) -> None:
    end = stopped(folder, f"{FIT}\nfit()\n", "step 3", signal.SIGINT)
    assert end.code == 130
    assert "KeyboardInterrupt" in end.err


def test_the_thread_and_the_files_that_watch_are_gone_after_a_fit(folder: Folder) -> None:
    own = """
import os, threading
before = os.listdir("/proc/self/fd")
for _ in range(50):
    fit(0)
time.sleep(0.1)
print(threading.active_count(), len(os.listdir("/proc/self/fd")) - len(before), signal.set_wakeup_fd(-1))
"""
    assert folder.python(folder.write("train.py", FIT + own)).out.splitlines()[-1] == "1 0 -1"
