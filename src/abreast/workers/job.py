"""The caller's side: a supervisor thread starts the workers, receives their heartbeats, and ends all when one fails.

Not here: the worker that failed first, and the error that names it (`failure.py`).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import socket
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence

from abreast.errors import LaunchError, WorkerError
from abreast.workers.failure import error_of, failed_first, verdict
from abreast.workers.supervised import SupervisedWorker
from abreast.workers.worker import BEAT_SECONDS, COMPUTING, STOP_SECONDS

_SILENT_SECONDS = 4 * BEAT_SECONDS
_TICK_SECONDS = 0.2
_START_SECONDS = 60.0  # importing a framework can delay the heartbeat
_COLLECT_SECONDS = 1.0  # the complaints of surviving workers can arrive before the news of another worker's death
_jobs: weakref.WeakSet[Job] = weakref.WeakSet()


class Job:
    """Worker processes that start and end together. Each runs `main(worker)` of `module`, never the user's script.

    `failure` is set, once, to the error that names the rank that failed first; then `on_failure` is called in the
    supervisor's thread. `pass_fds` are inherited under the same numbers. `arguments` reach a worker as `Worker.argument`.
    A worker without a heartbeat for `hang_seconds` (at least a minute while it starts) counts as hung. `begin_work` watches
    for workers that are alive and make no progress.
    """

    def __init__(
        self,
        module: str,
        ranks: Sequence[int],
        *,
        environments: Mapping[int, Mapping[str, str]] | None = None,
        pass_fds: Mapping[int, Sequence[int]] | None = None,
        arguments: Mapping[int, str] | None = None,
        hang_seconds: float = 60.0,
        first_seconds: float = 1800.0,
        name: str = "abreast",
        on_failure: Callable[[], None] | None = None,
    ) -> None:
        if not sys.executable:
            raise LaunchError("worker processes need the path of Python, and sys.executable is empty")
        self.name = name
        self.failure: WorkerError | None = None
        self.forked = False
        self._hang_seconds = hang_seconds
        self._first_seconds = first_seconds
        self._on_failure = on_failure
        self._work: tuple[float, float] | None = None
        self._failed = threading.Event()
        self._stopping = threading.Event()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._workers = [
            SupervisedWorker(
                rank,
                module,
                (environments or {}).get(rank, {}),
                (pass_fds or {}).get(rank, ()),
                (arguments or {}).get(rank, ""),
            )
            for rank in ranks
        ]
        self._start()

    def _start(self) -> None:
        started = threading.Event()
        trouble: list[OSError] = []
        # PR_SET_PDEATHSIG fires when the *thread* that started a process ends, so the supervisor's thread, which lives as
        # long as the workers, starts them.
        self._thread = threading.Thread(
            target=self._supervise, args=(started, trouble), name=f"{self.name}-supervisor", daemon=True
        )
        self._thread.start()
        _jobs.add(self)
        atexit.register(self.close)
        started.wait(60)
        if trouble or not started.is_set():
            self.close()
            raise LaunchError(f"cannot start a worker process: {trouble[0] if trouble else 'no answer for 60 s'}")

    @property
    def pids(self) -> dict[int, int]:
        """Process id of each rank."""
        return {worker.rank: worker.process.pid for worker in self._workers if worker.process is not None}

    def begin_work(self, first: bool = False) -> None:
        """The caller now waits for the workers: from now on, a worker that computes without progress can count as hung.

        The limit is `hang_seconds`, or `first_seconds` for the `first` step of its kind, which may compile.
        """
        self._work = (time.monotonic(), self._first_seconds if first else self._hang_seconds)

    def end_work(self) -> None:
        self._work = None

    @contextlib.contextmanager
    def work(self, first: bool = False) -> Iterator[None]:
        """`begin_work` and `end_work` around a block."""
        self.begin_work(first)
        try:
            yield
        finally:
            self.end_work()

    def check(self) -> None:
        """Raise the job's failure, if there is any."""
        if self.forked:
            raise LaunchError("these worker processes belong to the process that this one was forked from")
        if self.failure is not None:
            raise self.failure

    def wait_for_failure(self, seconds: float = 5.0) -> WorkerError | None:
        """Wait for the job's failure and return it. For a caller whose own call has just failed, to find out why."""
        self._failed.wait(seconds)
        return self.failure

    def close(self) -> None:
        """Ask the workers to end, then kill them. No process, thread or descriptor remains. A second call does nothing."""
        if self.forked:
            return
        self._stopping.set()
        self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(STOP_SECONDS + 10)
        atexit.unregister(self.close)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"\0")

    # In the supervisor's thread.

    def _supervise(self, started: threading.Event, trouble: list[OSError]) -> None:
        try:
            for worker in self._workers:
                worker.start()
        except OSError as error:
            trouble.append(error)
        started.set()
        try:
            if not trouble:
                self._watch()
        finally:
            self._end_workers(gently=not trouble and self.failure is None)
            self._wake_reader.close()
            self._wake_writer.close()

    def _watch(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_reader, selectors.EVENT_READ)
            for worker in self._workers:
                selector.register(worker.monitor, selectors.EVENT_READ, worker)
            last = time.monotonic()
            while not self._stopping.is_set():
                self._listen(selector, _TICK_SECONDS)
                now = time.monotonic()
                # A tick counts as at most one second: if this process was stopped for longer, the workers were not silent.
                self._judge_silence(min(now - last, 1.0))
                last = now
                if any(verdict(worker) for worker in self._workers):
                    self._fail(selector)
                    return

    def _listen(self, selector: selectors.BaseSelector, seconds: float) -> None:
        for key, _ in selector.select(seconds):
            if key.data is not None and not key.data.listen():
                selector.unregister(key.fileobj)
        for worker in self._workers:
            worker.look()

    def _judge_silence(self, elapsed_seconds: float) -> None:
        for worker in self._workers:
            worker.silent_seconds += elapsed_seconds
            limit = self._hang_seconds if worker.ready else max(self._hang_seconds, _START_SECONDS)
            if worker.silent_seconds > limit:
                worker.hung = f"stopped answering for {limit:g} s"
        work, now = self._work, time.monotonic()
        if work is None or any(worker.silent_seconds > _SILENT_SECONDS for worker in self._workers):
            return  # a worker without progress may be waiting for a silent one
        for worker in self._workers:
            if worker.phase == COMPUTING and now - max(work[0], worker.progress_time) > work[1]:
                worker.hung = f"did not finish its step for {work[1]:g} s"

    def _fail(self, selector: selectors.BaseSelector) -> None:
        deadline = time.monotonic() + _COLLECT_SECONDS
        while time.monotonic() < deadline and not self._stopping.is_set():
            self._listen(selector, 0.05)
            if any(verdict(worker) == 1 for worker in self._workers):  # no other failure explains more
                break
        failure = error_of(failed_first(self._workers), self.name)
        for worker in self._workers:
            worker.kill()
        self.failure = failure
        self._failed.set()
        if self._on_failure is not None:
            try:
                self._on_failure()
            except Exception:  # a faulty hook must not keep the workers alive, nor change the failure
                traceback.print_exc()

    def _end_workers(self, gently: bool) -> None:
        deadline = time.monotonic() + (STOP_SECONDS if gently else 0.0)
        for worker in self._workers:
            worker.ask_to_end()
        while time.monotonic() < deadline and any(not worker.look() for worker in self._workers):
            time.sleep(0.005)
        for worker in self._workers:
            worker.end()

    def _abandon(self) -> None:
        """In a forked child: forget the workers, which belong to the parent."""
        self.forked = True
        self._failed = threading.Event()
        self._stopping = threading.Event()
        for worker in self._workers:
            worker.abandon()
        self._wake_reader.close()
        self._wake_writer.close()
        atexit.unregister(self.close)


def _abandon_jobs() -> None:
    for job in list(_jobs):
        job._abandon()
    _jobs.clear()


os.register_at_fork(after_in_child=_abandon_jobs)
