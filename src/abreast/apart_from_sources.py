"""Keeps apart data sources, which threads of the feed read, and dry runs, which restore what a source may change meanwhile.

Imports no framework.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_SECONDS = 2.0  # that a dry run waits for a source, which may itself wait for the training
_changed = threading.Condition()
_reading: set[int] = set()  # threads in the code of a source
_num_dry_runs = 0


@contextmanager
def reading() -> Iterator[None]:
    """Inside, this thread of the feed runs a source's code."""
    _begin_reading()
    try:
        yield
    finally:
        _end_reading()


@contextmanager
def waiting() -> Iterator[None]:
    """Inside `reading`: the source waits for the training, so dry runs may begin."""
    _end_reading()
    try:
        yield
    finally:
        _begin_reading()


@contextmanager
def dry_run() -> Iterator[None]:
    """Inside, no other thread reads a source, except one that has not returned after two seconds."""
    global _num_dry_runs
    with _changed:
        _num_dry_runs += 1
        _changed.wait_for(lambda: _reading <= {threading.get_ident()}, _MOST_SECONDS)
    try:
        yield
    finally:
        with _changed:
            _num_dry_runs -= 1
            _changed.notify_all()


def _begin_reading() -> None:
    with _changed:
        _changed.wait_for(lambda: _num_dry_runs == 0)
        _reading.add(threading.get_ident())


def _end_reading() -> None:
    with _changed:
        _reading.discard(threading.get_ident())
        _changed.notify_all()
