"""From spans to rows: which spans belong to a step. Times are in milliseconds; every step takes 100 of them."""

from __future__ import annotations

import pytest

from abreast.spans import MAIN, READER, STAGER, Span
from abreast.timeline.accounts import Accounts
from abreast.timeline.step_table import STEP
from abreast.timeline.windows import Window
from tests.timeline.moments import Parts

MILLISECOND = 1_000_000


def span(track: str, name: str, start: float, end: float, **numbers: float) -> Span:
    return Span(track, name, int(start * MILLISECOND), int(end * MILLISECOND), numbers)


def window(start: float, finished: tuple[float, ...] = (), end: float = 0, is_last: bool = False) -> Window:
    """Callbacks take 5 ms before the call of the step and 5 ms after it, which ends 15 ms before the step does."""
    begun, called, returned, ended = (int((start + offset) * MILLISECOND) for offset in (0, 5, 85, 90))
    closed = Window(0, int(start // 100), begun, 1, called, returned, ended)
    closed.end, closed.is_last = int((end or start + 100) * MILLISECOND), is_last
    closed.finished = tuple(int(time * MILLISECOND) for time in finished)
    return closed


def spans_held(accounts: Accounts) -> int:
    batches, intervals = accounts._batches, (accounts._waits, accounts._calls, accounts._sums, accounts._puts)
    columns = (*intervals, batches._taken, batches._reads._waiting, batches._puts._waiting)
    return len(accounts.newest._arrived) + sum(int(each.shape[1]) for each in columns)


def call(start: float, wait: float = 20) -> list[Span]:
    number = start // 100
    return [
        span(MAIN, "wait", start + 10, start + 10 + wait, batch=number),
        span(MAIN, "step", start + 6, start + 84, kind=0),
    ]


def enter(accounts: Accounts, closed: Window) -> Parts:
    """The parts of a step, in milliseconds."""
    (row,) = accounts.enter([closed])
    told = dict(zip(STEP.names or (), row.tolist(), strict=True))
    return Parts(*(told[part] // MILLISECOND for part in Parts._fields))


def test_a_step_whose_call_computes_is_split() -> None:
    accounts = Accounts(0, ("cpu:0",), keep_steps=10)
    put = span(STAGER, "put", 25, 30, batch=0, bytes=4096, rows=32)
    accounts.take([span(READER, "read", 0, 25, batch=0), put, *call(0)])
    assert enter(accounts, window(0)) == Parts(wait=15, copy=5, compute=58, all_reduce=0, callbacks=10, rest=12)
    row = accounts.table.rows()[0]
    assert (row["rows"], row["bytes"]) == (32, 4096)
    assert row["read"] == pytest.approx(0.025)
    assert row["put"] == pytest.approx(0.005)
    assert row["call"] == pytest.approx(0.058)
    assert accounts.table.device_seconds[0] == pytest.approx([0.058])


def test_devices_that_finish_later_compute_into_the_next_step() -> None:
    accounts = Accounts(0, ("gpu:0", "gpu:1"), keep_steps=10)
    accounts.take([*call(0), *call(100)])
    first = enter(accounts, window(0, finished=(130, 120)))
    second = enter(accounts, window(100, finished=(180, 190)))
    # 0-5 callbacks, 5-6 rest, 6-10 busy, 10-30 wait, 30-100 busy.
    assert first == Parts(wait=20, copy=0, compute=74, all_reduce=0, callbacks=5, rest=1)
    # 100-130 busy hides callbacks and wait, 130-190 busy, 190-200 rest.
    assert second == Parts(wait=0, copy=0, compute=90, all_reduce=0, callbacks=0, rest=10)
    assert accounts.table.device_seconds[1] == pytest.approx([0.050, 0.060])


def test_an_all_reduce_inside_computing_is_separated() -> None:
    accounts = Accounts(0, ("cpu:0",), keep_steps=10)
    accounts.take([*call(0), span(MAIN, "all-reduce", 60, 75), span(MAIN, "all-reduce", 70, 80)])
    parts = enter(accounts, window(0))
    assert (parts.compute, parts.all_reduce) == (38, 20)


def test_a_fit_inside_a_callback_counts_as_that_callback() -> None:
    accounts = Accounts(0, ("cpu:0",), keep_steps=10)
    nested = [span(MAIN, "wait", 1, 2, batch=0), span(MAIN, "step", 0.5, 4, kind=0)]
    accounts.take([*nested, span(MAIN, "all-reduce", 2, 3), *call(0)])
    assert enter(accounts, window(0)) == Parts(20, 0, 58, 0, 10, 12)


def test_spans_between_two_steps_belong_to_neither() -> None:
    accounts = Accounts(0, ("cpu:0",), keep_steps=10)
    accounts.take(call(0))
    accounts.enter([window(0, is_last=True, end=90)])
    validation = [span(MAIN, "wait", 120, 180, batch=0), span(MAIN, "step", 110, 190, kind=1)]
    accounts.take([*validation, *call(200)])
    parts = enter(accounts, window(200))
    assert (sum(parts), parts.wait) == (100, 20)


def test_the_last_step_of_an_epoch_ends_when_it_is_computed() -> None:
    accounts = Accounts(0, ("gpu:0",), keep_steps=10)
    accounts.take(call(0))
    assert sum(enter(accounts, window(0, finished=(130,), end=400, is_last=True))) == 130
    accounts.take(call(400))
    assert sum(enter(accounts, window(400, finished=(600,), end=550, is_last=True))) == 150


def test_without_staging_reading_is_waiting_and_putting_is_copying() -> None:
    accounts = Accounts(0, ("cpu:0",), keep_steps=10)
    own = [span(MAIN, "read", 10, 30, batch=0), span(MAIN, "put", 30, 40, batch=0, bytes=8)]
    accounts.take([*own, span(MAIN, "step", 6, 84, kind=0)])
    assert enter(accounts, window(0)) == Parts(20, 10, 48, 0, 10, 12)
    assert accounts.table.rows()[0]["bytes"] == 8


def test_a_batch_taken_before_the_step_is_the_steps() -> None:
    """Keras takes it out of the feed on PyTorch: in the window before, or before the first one."""
    accounts = Accounts(0, ("cpu:0",), keep_steps=10)
    for number, start in enumerate((100, 200)):
        put = span(STAGER, "put", start - 20, start - 10, batch=number, bytes=1 + number, rows=32)
        accounts.take([put, span(MAIN, "wait", start - 8, start - 4, batch=number), call(start)[1]])
    assert enter(accounts, window(100)).wait == 4  # that for the next one
    assert enter(accounts, window(200)).wait == 0
    assert accounts.table.rows()["bytes"].tolist() == [1, 2]


def test_the_batches_of_a_step_are_those_that_it_took() -> None:
    """Keras says 4, since it does not know when a generator ends. Without staging each one is waited for, and put."""
    accounts = Accounts(0, ("cpu:0",), keep_steps=10)
    for batch in range(3):
        start = 10 + 20 * batch
        accounts.take([span(MAIN, "put", start + 5, start + 8, batch=batch, rows=32, bytes=8)])
        accounts.take([span(MAIN, "wait", start, start + 5, batch=batch)])
    accounts.take([span(MAIN, "step", 6, 84, kind=0)])
    closed = window(0)
    closed.batches = 4
    accounts.enter([closed])
    row = accounts.table.rows()[0]
    assert (row["batches"], row["rows"], row["bytes"]) == (3, 96, 24)


def test_epochs_reported_together_keep_their_own_batches() -> None:
    accounts = Accounts(0, ("cpu:0",), keep_steps=10)
    for start in (100, 200):
        put = span(STAGER, "put", start - 10, start - 5, batch=0, bytes=start, rows=32)
        accounts.take([put, span(MAIN, "wait", start + 10, start + 30, batch=0), call(start)[1]])
    accounts.enter([window(100)])
    accounts.enter([window(200)])
    assert accounts.table.rows()["bytes"].tolist() == [100, 200]


def test_memory_is_bounded() -> None:
    accounts = Accounts(0, ("cpu:0",), keep_steps=10)
    for number in range(2000):
        start = 100 * number
        accounts.take([span(READER, "read", start, start + 1, batch=number), *call(start)])
        accounts.take([span(STAGER, "put", start + 1, start + 2, batch=number)])
        accounts.enter([window(start)])
    assert len(accounts.table) == 2000
    assert min(span.end_ns for span in accounts.newest.spans()) >= (1989 * 100) * MILLISECOND
    assert spans_held(accounts) <= 64 * 10 + 20


def test_memory_is_bounded_where_no_step_follows() -> None:
    """A long validation."""
    accounts = Accounts(0, ("cpu:0",), keep_steps=10)
    for number in range(100):
        own = [span(MAIN, "wait", number, number + 1, batch=each) for each in range(300)]
        others = [span(READER, "read", number, number + 1, batch=each) for each in range(300)]
        accounts.take([*own, *others, *call(number)])
    assert 8192 <= spans_held(accounts) <= 64 * 10 + 6 * 8192
    accounts.enter([window(200)])
    assert spans_held(accounts) <= 64 * 10 + 3 * 1024


def test_a_step_without_spans_computes_during_its_call() -> None:
    """A model that abreast has not placed has no spans."""
    accounts = Accounts(0, ("cpu",), keep_steps=10)
    assert enter(accounts, window(0)) == Parts(0, 0, 80, 0, 10, 10)
