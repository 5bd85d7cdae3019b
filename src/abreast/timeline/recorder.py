"""Records one fit. The training thread only notes times; a second thread waits for devices and computes rows per step.

Not here: computing the rows (`accounts.py`), and the user's view of them (`timeline.py`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from queue import Empty, SimpleQueue
from time import perf_counter_ns
from typing import Any, Protocol

from abreast import spans
from abreast.spans import MAIN, Span
from abreast.timeline.accounts import Accounts
from abreast.timeline.callback_times import Fit
from abreast.timeline.step_spans import CALLBACKS
from abreast.timeline.step_table import NO_STEPS, Numbers
from abreast.timeline.windows import EpochRecord, Window

_ROUND_NS = 1_000_000_000
_LOOK_NS = 1_000_000_000  # between two checks whether the fit is over
_FLUSH_SECONDS = 10.0


class DeviceClock(Protocol):
    """The part of `backend/instruments.py` that measures when devices have finished."""

    def mark(self, outputs: Any) -> Any: ...

    def finished(self, mark: Any) -> tuple[int, ...]: ...


class StepRecorder:
    """Records from `start` to `stop`, or until the fit has returned or raised. After that, none of its threads runs."""

    def __init__(
        self,
        fit: Fit,
        clock: DeviceClock,
        accounts: Accounts,
        tell: Callable[[list[Numbers | EpochRecord]], None],
        end: Callable[[], None],
    ) -> None:
        self.accounts = accounts
        self.error: BaseException | None = None
        self._fit, self._clock, self._tell, self._end = fit, clock, tell, end
        self._heard: list[Span] = []
        self._items: deque[Window | EpochRecord] = deque()
        self._unfinished: deque[Window] = deque()
        self._wake: SimpleQueue[threading.Event | None] = SimpleQueue()
        self._open: Window | None = None
        self._epoch = self._epoch_start = self._validation = self._validation_start = self._event_start = 0
        self._is_idle = self._stopped = False
        self._thread = threading.Thread(target=self._run, name="abreast-timeline", daemon=True)

    def start(self) -> None:
        spans.listen(self._heard)
        self._fit.follow(self)
        self._fit.when_forgotten(self._abandon)
        self._thread.start()

    def flush(self) -> None:
        """Wait until everything up to now has been passed to `tell`."""
        if self._stopped or threading.current_thread() is self._thread:
            return
        done = threading.Event()
        self._wake.put(done)
        done.wait(_FLUSH_SECONDS)

    def stop(self) -> None:
        """Stop recording, and pass on all complete steps. A second call does nothing."""
        self._abandon()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_FLUSH_SECONDS)

    def _abandon(self) -> None:
        """Stop after a fit that was freed without `on_train_end`. Does not wait, because any thread may call it."""
        self._stopped = True
        self._wake.put(None)

    def _leave(self) -> None:
        self._fit.leave(self)
        spans.ignore(self._heard)

    # Called in the training thread, as a `callback_times.EventListener`.

    def before(self, event: str, index: int, logs: Any, time_ns: int) -> None:
        self._event_start = time_ns
        if event == "on_train_batch_end":
            window = self._open
            if window is not None:
                window.batches, window.returned = self._fit.num_batches(window.first, index), time_ns
                window.handle = self._clock.mark(logs)
                self._items.append(window)
                if window.handle is not None:
                    self._unfinished.append(window)
                    if self._is_idle:
                        self._wake.put(None)
            return
        self._close(time_ns, is_last=event != "on_train_batch_begin")
        if event == "on_train_batch_begin":
            self._open = Window(self._epoch, index, time_ns)
        elif event == "on_epoch_begin":
            self._epoch, self._epoch_start, self._validation = index, time_ns, 0
        elif event == "on_test_begin":
            self._validation_start = time_ns

    def after(self, event: str, time_ns: int) -> None:
        window = self._open
        if event == "on_train_batch_begin":
            if window is not None:
                window.called = time_ns
            return
        if event == "on_train_batch_end":
            if window is not None:
                window.ended = time_ns
            return
        if event == "on_test_end":
            self._validation += time_ns - self._validation_start
            self._heard.append(Span(MAIN, "validation", self._validation_start, time_ns, {"epoch": self._epoch}))
        elif event == "on_epoch_end":
            self._items.append(EpochRecord(self._epoch, self._epoch_start, time_ns, self._validation))
        self._heard.append(Span(CALLBACKS, event, self._event_start, time_ns, {}))

    def _close(self, time_ns: int, is_last: bool) -> None:
        window, self._open = self._open, None
        if window is not None and window.ended:
            window.is_last = is_last
            window.end = time_ns

    # In the recorder's own thread.

    def _run(self) -> None:
        try:
            self._listen()
        finally:
            self._leave()
            self._end()

    def _listen(self) -> None:
        counted = looked = perf_counter_ns()
        while True:
            asked = self._next_request()
            is_last = self._stopped
            try:
                self._wait_for_devices(counted + _ROUND_NS)
                if asked is not None or is_last or perf_counter_ns() > counted + _ROUND_NS:
                    self._count()
                    counted = perf_counter_ns()
            except Exception as error:  # a measurement must not end a training
                self.error = self.error or error
                for waiting in (self._heard, self._items, self._unfinished):
                    waiting.clear()
            if asked is not None:
                asked.set()
            if is_last:
                return
            if perf_counter_ns() > looked + _LOOK_NS:
                looked = perf_counter_ns()
                self._stopped = self._stopped or self._fit.is_over

    def _next_request(self) -> threading.Event | None:
        """Wait for a request or the end of a round; do not wait while a step is under way."""
        self._is_idle = True  # set before looking, so that the training thread announces later steps through `_wake`
        try:
            return self._wake.get_nowait() if self._unfinished else self._wake.get(timeout=_ROUND_NS / 1e9)
        except Empty:
            return None
        finally:
            self._is_idle = False

    def _wait_for_devices(self, until_ns: int) -> None:
        """Wait until the devices have computed each step under way, and note the times."""
        while self._unfinished and perf_counter_ns() < until_ns:
            window = self._unfinished.popleft()
            window.finished, window.handle = self._clock.finished(window.handle), None

    def _count(self) -> None:
        """Compute the rows of all complete steps at once, and pass them to `tell`."""
        complete = list(takewhile(_is_complete, self._items.copy()))
        self._take_spans()  # after the line above, so that the spans of all complete steps are included
        for _ in complete:
            self._items.popleft()
        if complete:
            self._tell(self._with_rows(complete))

    def _with_rows(self, complete: list[Window | EpochRecord]) -> list[Numbers | EpochRecord]:
        """The items in the same order, with consecutive windows replaced by one block of rows."""
        windows = [item for item in complete if isinstance(item, Window)]
        rows = self.accounts.enter(windows) if windows else NO_STEPS
        found: list[Numbers | EpochRecord] = []
        count = 0
        for item in complete:
            if isinstance(item, Window):
                count += 1
                continue
            found += [rows[:count], item]
            rows, count = rows[count:], 0
        return [*found, rows]

    def _take_spans(self) -> None:
        count = len(self._heard)
        if count:
            self.accounts.take(self._heard[:count])
            del self._heard[:count]


def _is_complete(item: Window | EpochRecord) -> bool:
    """True for an epoch, and for a step that is computed and closed."""
    return isinstance(item, EpochRecord) or (item.handle is None and item.end > 0)
