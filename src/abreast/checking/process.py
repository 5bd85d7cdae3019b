"""Runs a side in a process of its own, and returns its log, its facts and its error.

Both sides read the same stdin and run in the caller's folder, one after the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abreast import deterministic
from abreast.checking.log import Event, read
from abreast.checking.side import SideSpec
from abreast.errors import LaunchError
from abreast.run import RunOptions

_PASSED_ON_SECONDS, _STOP_SECONDS = 1.0, 10.0

# Like `-m abreast.checking.side`, except that the caller's folder is not on the import path before the script runs.
_PROGRAM = """
import os, sys
sys.path[0] = {package!r}
from abreast.checking.side import main
code = main(sys.argv[1], int(sys.argv[2]))
try:
    sys.stdout.flush()
except OSError:
    pass
sys.exit(code)
"""


@dataclass(frozen=True)
class SideRun:
    """The record of a side, and the lines of abreast in its output.

    `error` describes the script's exception: `kind`, `message`, and `refused` (by abreast).
    """

    code: int
    events: list[Event]
    facts: dict[str, Any]
    error: dict[str, Any] | None
    printed: tuple[str, ...] = ()


@dataclass
class Stdin:
    """The caller's stdin, repeated for each side from its beginning. If it is a terminal, the sides read it themselves."""

    _read: bytearray = field(default_factory=bytearray)
    _ended: bool = False

    def shared(self) -> bool:
        return sys.stdin is None or sys.stdin.closed or os.isatty(0)

    def feed(self, pipe: int, done: threading.Event) -> None:
        """Write the input that earlier sides have read, then new input as it arrives, until the side has ended."""
        try:
            given = 0
            while not done.is_set():
                if given < len(self._read):
                    given += os.write(pipe, bytes(self._read[given : given + 65536]))
                elif self._ended:
                    break
                elif select.select([0], [], [], 0.2)[0]:
                    piece = os.read(0, 65536)
                    self._read += piece
                    self._ended = not piece
        except OSError:  # a side that ended, or no stdin
            pass
        finally:
            os.close(pipe)


def run_side(side: SideSpec, stdin: Stdin, *, shown: bool) -> SideRun:
    """Run a side to its end. Its script's output goes to stderr if `shown`, and is discarded otherwise."""
    Path(side.folder).mkdir()
    alive, lifeline = os.pipe()  # the side's end is closed when this process ends
    theirs, ours = (None, None) if stdin.shared() else os.pipe()
    package = str(Path(__file__).resolve().parents[2])
    output = sys.stderr.fileno() if shown and _has_descriptor() else subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(package=package), side.as_json(), str(alive)],
            env=environment(side.options, float64=side.float64),
            stdin=theirs,
            stdout=output,
            stderr=output,
            pass_fds=[alive],
        )
    finally:
        os.close(alive)
        if theirs is not None:
            os.close(theirs)
    done = threading.Event()
    if ours is not None:
        threading.Thread(target=stdin.feed, args=(ours, done), daemon=True).start()
    try:
        code = _wait(process)
    finally:
        done.set()
        os.close(lifeline)
    return _result(side, code)


def _has_descriptor() -> bool:
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for the side; returns its exit code.

    Ctrl-C in a terminal reaches the side directly. An interrupt that came in another way is passed on to it.
    """
    try:
        return process.wait()
    except KeyboardInterrupt:
        for number, seconds in ((signal.SIGINT, _PASSED_ON_SECONDS), (signal.SIGKILL, _STOP_SECONDS)):
            with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(seconds)
                break
            process.send_signal(number)
        process.wait()
        raise
    except SystemExit:  # SIGTERM
        process.kill()
        process.wait()
        raise


def environment(options: RunOptions, *, float64: bool = False) -> dict[str, str]:
    """The environment of a process that runs the script."""
    found = {"PYTHONHASHSEED": "0", **os.environ}
    if float64:
        found["JAX_ENABLE_X64"] = "1"
    if options.cpu_devices is not None:
        found["CUDA_VISIBLE_DEVICES"] = ""
    return deterministic.environment(found) if options.on_gpus() else found


def _result(side: SideSpec, code: int) -> SideRun:
    folder = Path(side.folder)
    if code == 130:
        raise KeyboardInterrupt
    outcome = _json(folder / "outcome.json")
    if outcome is None:
        what = f"signal {-code}" if code < 0 else f"exit code {code}"
        outcome = {
            "error": {"kind": "process", "message": f"the process ended by {what}", "refused": False},
            "printed": (),
        }
    error = outcome["error"]
    if error is None and code not in (0, None):
        error = {"kind": "SystemExit", "message": f"the script ended with exit code {code}", "refused": False}
    return SideRun(code, read(folder), _json(folder / "facts.json") or {}, error, tuple(outcome["printed"]))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise LaunchError(f"{path.name} of a side is incomplete: {error}", "run the check again") from None
