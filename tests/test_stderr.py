"""Lines for the user: records of Python's logger `abreast`, which anybody can silence, redirect and format."""

from __future__ import annotations

import logging
import logging.config
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from abreast.stderr import StatusLine, each_once, fail, silent, tell
from tests.harness.folder import Folder


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """The logger `abreast`, which is afterwards as before."""
    found = logging.getLogger("abreast")
    level, handlers, filters, propagate = found.level, found.handlers[:], found.filters[:], found.propagate
    yield found
    found.setLevel(level)
    found.handlers[:], found.filters[:] = handlers, filters
    found.propagate = propagate


class Kept(logging.Handler):
    """Keeps the text of each record."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.levelname} {record.getMessage()}")


def test_lines_go_to_stderr_with_our_name(capsys: pytest.CaptureFixture[str]) -> None:
    tell("100 % of %s")
    fail("it is full\nhint: make room")
    assert capsys.readouterr() == ("", "abreast: 100 % of %s\nabreast: error: it is full\nhint: make room\n")


def test_a_thread_is_silent_while_others_are_heard(capsys: pytest.CaptureFixture[str]) -> None:
    with silent():
        tell("a line about a step that nobody asked for")
        other = threading.Thread(target=tell, args=["a line of another thread"])
        other.start()
        other.join()
    tell("a later line")
    assert capsys.readouterr().err == "abreast: a line of another thread\nabreast: a later line\n"


def test_lines_that_were_told_before_are_told_once(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    told = each_once(["it runs on JAX: no file names another"])
    tell("it runs on JAX: a file names another, which is not there")
    tell("new")
    fail("it runs on JAX")
    assert told == ["new", "it runs on JAX"]
    assert capsys.readouterr().err == "abreast: new\nabreast: error: it runs on JAX\n"


def test_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    tell("\x1b[2J")
    assert capsys.readouterr().err == "abreast: \\x1b[2J\n"


def test_a_level_silences_lines_and_leaves_errors(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    logger.setLevel(logging.ERROR)
    line = StatusLine()
    line.show("working")
    line.clear()
    tell("a line")
    fail("an error")
    assert capsys.readouterr().err == "abreast: error: an error\n"


def test_a_handler_may_take_the_place_of_stderr(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    kept = Kept()
    logger.handlers[:] = [kept]
    tell("a line")
    fail("an error")
    assert kept.texts == ["INFO a line", "ERROR an error"]
    assert capsys.readouterr().err == ""


def test_a_root_logger_gets_no_second_copy_unless_asked(logger: logging.Logger) -> None:
    kept = Kept()
    logging.getLogger().addHandler(kept)
    try:
        tell("one")
        logger.propagate = True
        tell("two")
    finally:
        logging.getLogger().removeHandler(kept)
    assert kept.texts == ["INFO two"]


def test_a_configuration_of_other_loggers_silences_nothing(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    others = {
        name: each.disabled for name, each in logging.root.manager.loggerDict.items() if hasattr(each, "disabled")
    }
    logging.config.dictConfig({"version": 1})
    try:
        assert logger.disabled
        tell("still here")
    finally:
        for name, disabled in others.items():
            logging.getLogger(name).disabled = disabled
    assert capsys.readouterr().err == "abreast: still here\n"


@pytest.mark.parametrize("stderr", [None, "closed"])
def test_a_closed_stderr_ends_nothing(stderr: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if stderr == "closed":
        stderr = (tmp_path / "stderr").open("w")
        stderr.close()
    monkeypatch.setattr(sys, "stderr", stderr)
    tell("nobody reads this")


def test_a_script_sets_the_logger_before_abreast_is_imported(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    script = folder.write(
        "quiet.py",
        """
        import logging
        logging.basicConfig(format="%(name)s %(levelname)s %(message)s")
        logging.getLogger("abreast").setLevel(logging.WARNING)
        from abreast.stderr import fail, tell
        tell("a line")
        fail("an error")
        """,
    )
    assert folder.python(script).err == "abreast: error: an error\n"


def test_a_handler_that_was_set_before_abreast_is_imported_is_the_only_one(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    script = folder.write(
        "to_a_file.py",
        """
        import logging
        logging.getLogger("abreast").addHandler(logging.FileHandler("abreast.log"))
        from abreast.stderr import tell
        tell("a line")
        """,
    )
    assert folder.python(script).err == ""
    assert (tmp_path / "abreast.log").read_text() == "a line\n"
