"""A dry run waits for a source that another thread reads, and a source for a dry run; neither waits for ever."""

from __future__ import annotations

import threading

import pytest

from abreast import apart_from_sources
from abreast.apart_from_sources import dry_run, reading, waiting


def _in_a_thread(until: threading.Event, inside: threading.Event, waits: bool = False) -> threading.Thread:
    def read() -> None:
        with reading():
            inside.set()
            if waits:
                with waiting():
                    until.wait(10)
            else:
                until.wait(10)

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def test_a_dry_run_waits_for_a_source_and_then_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart_from_sources, "_MOST_SECONDS", 0.3)
    end, inside = threading.Event(), threading.Event()
    thread = _in_a_thread(end, inside)
    assert inside.wait(5)
    began = threading.Event()

    def dry() -> None:
        with dry_run():
            began.set()

    other = threading.Thread(target=dry)
    other.start()
    assert not began.wait(0.1)
    assert began.wait(5)  # although the source has not returned
    end.set()
    thread.join(5)
    other.join(5)


def test_a_source_that_waits_for_the_training_holds_no_dry_run_up() -> None:
    end, inside = threading.Event(), threading.Event()
    thread = _in_a_thread(end, inside, waits=True)
    assert inside.wait(5)
    with dry_run():
        end.set()
        thread.join(0.2)
        assert thread.is_alive()  # it goes on after the dry run
    thread.join(5)
    assert not thread.is_alive()


def test_a_source_that_calls_a_model_begins_a_dry_run_itself() -> None:
    with reading(), dry_run():
        pass
