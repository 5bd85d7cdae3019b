"""Decoding processes, seen from the caller's process. They paint rows of batches into memory that both share.

The lock of one Python interpreter limits its threads on several tens of cores; each process has its own. The work of a
process is in `decode_process.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from abreast.errors import DataError, WorkerError
from abreast.limits import hang_seconds
from abreast.records.decoding.batch_memory import Arena, BatchMemory
from abreast.records.decoding.decode_process import ANSWER_BYTES, NUMBER, ProcessSettings
from abreast.records.decoding.images import Pixels
from abreast.records.decoding.painters import PaintTask
from abreast.records.format.columns import Array
from abreast.records.reading.reader import Numbers
from abreast.workers.failure import describe_exit, exit_hint

_BOOT = (
    "import json, sys; argument = json.loads(sys.argv[1]); sys.path[:] = argument.pop('path'); "
    "from abreast.records.decoding import decode_process; decode_process.main(argument)"
)
_END_SECONDS = 5.0


@dataclass(eq=False)
class _Process:
    number: int
    process: subprocess.Popen[bytes]
    socket: socket.socket
    pending: dict[int, int] = field(default_factory=dict)  # number of rows by task

    def silent(self, seconds: float) -> WorkerError:
        """The error for a process that has not ended and does not answer."""
        hint = "the process was stopped, is swapping or reads a slow disk; ABREAST_HANG_SECONDS sets another limit"
        who = f"decoding process {self.number} (process id {self.process.pid})"
        return WorkerError(f"{who} has not answered for {seconds:g} s", hint)

    def error(self) -> WorkerError:
        """The error for a process whose socket is closed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        code = self.process.poll()
        how = "gives no answer" if code is None else describe_exit(code)
        hint = exit_hint(code if code is not None else 1)
        return WorkerError(f"decoding process {self.number} (process id {self.process.pid}) {how}", hint)


@dataclass(frozen=True)
class _Painted:
    """A task that a process works on."""

    owner: DecodeProcesses
    number: int

    def result(self) -> None:
        self.owner.wait_for(self.number)


class ProcessPool:
    """The decoding processes of a loader. They take half a second to start, so they are kept between iterations."""

    def __init__(self, setup: ProcessSettings, num_workers: int, keep_batches: int) -> None:
        self._make = partial(DecodeProcesses, setup, num_workers, keep_batches)
        self._idle: list[DecodeProcesses] = []
        self._closed = False

    def lend(self) -> Lent:
        """Painters for one iteration."""
        while self._idle:
            found = self._idle.pop()
            if found.is_ours:
                return Lent(found, self._take_back)
        return Lent(self._make(), self._take_back)

    def close(self) -> None:
        """End the processes. Lent ones end when they come back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _take_back(self, processes: DecodeProcesses) -> None:
        if self._closed:
            processes.close()
        elif not processes.is_lost:
            self._idle.append(processes)


class Lent:
    """Processes that paint for one iteration."""

    def __init__(self, processes: DecodeProcesses, give_back: Callable[[DecodeProcesses], None]) -> None:
        self.array = processes.array
        self.paint = processes.paint
        self._processes: DecodeProcesses | None = processes
        self._give_back = give_back

    def aside(self, function: Callable[..., None], *arguments: Any) -> None:
        function(*arguments)

    def finish(self) -> None:
        self.leave()

    def leave(self) -> None:
        processes, self._processes = self._processes, None
        if processes is not None:
            processes.settle()
            self._give_back(processes)


class DecodeProcesses:
    """`num_workers` processes, each with several threads. For one thread at a time, in the process that made it."""

    def __init__(self, setup: ProcessSettings, num_workers: int, keep_batches: int) -> None:
        self.is_lost = False
        self._hang_seconds = hang_seconds()
        self._process_id = os.getpid()
        self._arena = Arena(setup.block_bytes)
        self._next_task = 0
        self._failed: dict[int, Exception] = {}
        self._done: set[int] = set()
        self._processes: list[_Process] = []
        self._close = weakref.finalize(self, _end, self._processes, self._process_id)
        self.array = BatchMemory(setup.block_bytes, keep_batches, self._arena).array
        self._poll = select.poll()
        for number in range(num_workers):
            self._processes.append(_started(number, setup, self._arena.descriptor))
            self._processes[-1].socket.settimeout(self._hang_seconds)
            self._poll.register(self._processes[-1].socket, select.POLLIN)

    @property
    def is_ours(self) -> bool:
        """False in a process that was forked from the one that made the processes."""
        return os.getpid() == self._process_id

    def paint(self, numbers: Numbers, boxes: Array, flips: Array, images: Pixels, first: int) -> PaintTask:
        task, self._next_task = self._next_task, self._next_task + 1
        begin = self._arena.offset_of(images)
        head = np.array([[task, begin, first, images[0].size, 0, 0]], np.int64)
        rows = np.column_stack([numbers, boxes, flips]).astype(np.int64)
        process = min(self._processes, key=lambda each: sum(each.pending.values()))
        process.pending[task] = len(numbers)
        try:
            process.socket.send(np.concatenate([head, rows]).tobytes())
        except TimeoutError:
            self.is_lost = True
            raise process.silent(self._hang_seconds) from None
        except OSError:
            self.is_lost = True
            raise process.error() from None
        return _Painted(self, task)

    def wait_for(self, task: int) -> None:
        """Take answers until the task's arrives. Raises `DataError` for a damaged sample, `WorkerError` for a lost process."""
        while task not in self._done:
            self._listen()
        self._done.discard(task)
        if (error := self._failed.pop(task, None)) is not None:
            raise error

    def settle(self) -> None:
        """Wait until no process writes into a batch any more. After a lost process all processes are ended."""
        try:
            while not self.is_lost and any(each.pending for each in self._processes):
                self._listen()
        except WorkerError:
            self.is_lost = True
        except BaseException:
            self.close()
            raise
        self._done.clear()
        self._failed.clear()
        if self.is_lost:
            self.close()

    def close(self) -> None:
        """End the processes. Batches stay valid."""
        self.is_lost = True
        self._close()

    def _listen(self) -> None:
        """Take all answers that are there, or wait for the first. Raises `WorkerError` after `hang_seconds` without one."""
        ready = {descriptor for descriptor, _ in self._poll.poll(1000 * self._hang_seconds)}
        if not ready:
            self.is_lost = True
            raise next(each for each in self._processes if each.pending).silent(self._hang_seconds)
        for process in self._processes:
            if process.socket.fileno() in ready:
                self._take(process)

    def _take(self, process: _Process) -> None:
        try:
            answer = process.socket.recv(ANSWER_BYTES)
        except OSError:
            answer = b""
        if not answer:
            self.is_lost = True
            raise process.error()
        (task,) = NUMBER.unpack_from(answer)
        del process.pending[task]
        self._done.add(task)
        if len(answer) > NUMBER.size:
            self._failed[task] = _error(json.loads(answer[NUMBER.size :]), process.number)


def _error(described: dict[str, Any], number: int) -> Exception:
    message, hint, traceback = (described[name] for name in ("message", "hint", "traceback"))
    if traceback is None:
        return DataError(message, hint)
    return WorkerError(f"decoding process {number} raised {message}\n{traceback.rstrip()}", hint)


def _started(number: int, setup: ProcessSettings, arena: int) -> _Process:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path = [os.path.abspath(entry) for entry in sys.path]
    argument = setup._asdict() | {"path": path, "socket": theirs.fileno(), "arena": arena, "parent": os.getpid()}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, json.dumps(argument)],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), arena),
            start_new_session=True,  # only the caller gets Ctrl-C
        )
    return _Process(number, process, ours)


def _end(processes: list[_Process], process_id: int) -> None:
    if os.getpid() != process_id:  # this is a forked child, and the processes are its parent's
        for each in processes:
            each.process.returncode = 0  # otherwise its finalizer warns about a child of another process
            each.socket.close()
        return
    for each in processes:
        each.socket.close()
        with contextlib.suppress(ProcessLookupError):
            each.process.send_signal(signal.SIGKILL)  # it has no state to clean up
    for each in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            each.process.wait(_END_SECONDS)
