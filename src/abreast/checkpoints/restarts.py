"""`abreast run --max-restarts N`: runs the script in a child process, and again after a crash, as long as it makes progress.

Needs Linux for `sigtimedwait` and `PR_SET_PDEATHSIG`. Imports no framework.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from abreast.asked_to_end import EXIT_CODE
from abreast.checkpoints.policy import Policy
from abreast.checkpoints.stop import SIGNALS
from abreast.errors import WorkerError
from abreast.stderr import fail, tell
from abreast.workers.worker import die_with

# A child's environment variable: the supervisor's process id, and whether older checkpoints are removed already.
_SUPERVISOR = "ABREAST_SUPERVISOR"
_WAITED_FOR = {*SIGNALS, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
_SI_KERNEL = 128  # from the terminal, which also sends it to the child
_USAGE, _CTRL_C = 2, 130
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
_PAUSE_SECONDS = 1.0
_LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints in a folder at one moment, by name and identity, oldest first."""

    found: tuple[tuple[str, int, int], ...]

    @staticmethod
    def of(folder: str) -> Checkpoints:
        from abreast.checkpoints.folder import checkpoint_names  # loads NumPy

        stats = [(name, os.stat(os.path.join(folder, name))) for name in checkpoint_names(folder)]
        return Checkpoints(tuple((name, stat.st_ino, stat.st_mtime_ns) for name, stat in stats))

    @property
    def newest(self) -> tuple[str, int, int] | None:
        return self.found[-1] if self.found else None


def policy_of_this_start(policy: Policy) -> Policy | None:
    """The policy of a process that a supervisor started; the process then ends with it. None in other processes."""
    value = os.environ.pop(_SUPERVISOR, None)  # removed, so that the script's own children do not get it
    if value is None:
        return None
    process, begun = value.split(":")
    die_with(int(process))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED_FOR - {*SIGNALS})  # `stop.watching` lets these come
    return replace(policy, reset=policy.reset and not begun)


def run_again(policy: Policy, max_restarts: int) -> int:
    """Run this process's command in a child, and again after each crash, `max_restarts` times at most; returns its exit code.

    Ends without a restart: after a signal to this process, Ctrl-C, an error in the request (2), or two crashes without a new
    checkpoint between them.
    """
    first = found = Checkpoints.of(policy.folder)
    before = Checkpoints(())
    with _signals_wait():
        for restart in range(max_restarts + 1):
            code, is_asked = _run_once(is_begun=not set(first.found) & set(found.found))
            if is_asked or code in (0, _USAGE, _CTRL_C, -signal.SIGINT):
                break
            found = Checkpoints.of(policy.folder)
            is_to_reset = policy.reset and set(first.found) & set(found.found)
            after = Checkpoints(()) if is_to_reset else found
            if not _goes_on(code, restart, max_restarts, before, after):
                break
            if (number := _signal_in_pause()) is not None:
                return EXIT_CODE if number in SIGNALS else 128 + number
            before = after
    return code if code >= 0 else 128 - code


def _goes_on(code: int, restart: int, max_restarts: int, before: Checkpoints, after: Checkpoints) -> bool:
    """Whether to start again after a crash; reports the reason."""
    how = _how(code)
    place = f"from {after.newest[0]}" if after.newest else "at its beginning: there is no checkpoint yet"
    if restart == max_restarts:
        fail(WorkerError(f"{how}, and has been started again {max_restarts} times already", _hint(code, after)))
    elif restart > 0 and after.newest == before.newest:
        fail(WorkerError(f"{how} again, without a new checkpoint since it was started", _hint(code, after)))
    else:
        tell(f"{how}; it starts again {place} (restart {restart + 1} of {max_restarts})")
        return True
    return False


def _hint(code: int, checkpoints: Checkpoints) -> str:
    goes_on = f"; it goes on from {checkpoints.newest[0]}" if checkpoints.newest else ""
    return f"{_where_to_look(code)}; once the cause is gone, start the same command{goes_on}"


def _where_to_look(code: int) -> str:
    """Only an exception, which ends a script with 1, leaves an error for sure."""
    if code == -signal.SIGKILL:
        return "SIGKILL leaves no message: the system sends it when memory runs out (see `dmesg`), a job manager at a limit"
    if -code in _FAULTS:
        return f"{signal.Signals(-code).name} leaves no traceback; `PYTHONFAULTHANDLER=1` prints one"
    return "look at the error above" if code == 1 else "look at what the script printed above"


def _how(code: int) -> str:
    if code < 0:
        return f"the script was ended by {signal.Signals(-code).name}"
    return "the script asked to be tried again (75)" if code == EXIT_CODE else f"the script ended with exit code {code}"


def _run_once(is_begun: bool) -> tuple[int, bool]:
    """Run the child to its end, passing signals on. Returns its exit code, and whether a signal asked for the end."""
    environ = {**os.environ, _SUPERVISOR: f"{os.getpid()}:{'begun' if is_begun else ''}"}
    child = subprocess.Popen([sys.executable, *sys.orig_argv[1:]], env=environ)
    is_asked = False
    while child.poll() is None:
        came = signal.sigtimedwait(_WAITED_FOR, _LOOK_SECONDS)
        if came is None or came.si_signo == signal.SIGCHLD:
            continue
        is_asked = True
        if came.si_code != _SI_KERNEL:
            child.send_signal(came.si_signo)
    while signal.sigtimedwait(_WAITED_FOR - {signal.SIGCHLD}, 0) is not None:
        is_asked = True  # one to both processes may have ended the child before it was taken here
    return child.returncode, is_asked


def _signal_in_pause() -> int | None:
    came = signal.sigtimedwait(_WAITED_FOR - {signal.SIGCHLD}, _PAUSE_SECONDS)
    return None if came is None else came.si_signo


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Inside, signals are blocked until `sigtimedwait`. A child inherits this, so it loses no signal before it has handlers."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
