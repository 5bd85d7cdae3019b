"""The doctor's page as a file: written whole or not at all, escaped, bounded.

`test_page_browser.py` tests it in a browser.
"""

from __future__ import annotations

import html
import os
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import pytest

from abreast.doctor.diagnosis import Diagnosis, Finding
from abreast.doctor.page import page, write_page
from abreast.errors import AbreastError
from tests.doctor import diagnoses

_CLOSED_BY_THEMSELVES = {"meta", "link"}


class Elements(HTMLParser):
    """The elements of a page; raises where one is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag not in _CLOSED_BY_THEMSELVES:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("make", diagnoses.EVERY)
def test_every_element_is_closed_and_the_page_has_one_script(make: Callable[[], Diagnosis]) -> None:
    elements = Elements(page(make()))
    assert elements.open == []
    assert elements.names.count("script") == elements.names.count("h1") == elements.names.count("main") == 1


def test_names_of_a_user_stay_text() -> None:
    elements = Elements(page(diagnoses.hostile()))
    told = diagnoses.PLANTED.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    assert sum(told in text for text in elements.texts) > 10
    assert "<script>alert" not in page(diagnoses.hostile())


@pytest.mark.parametrize("make", diagnoses.EVERY)
def test_the_page_names_no_address_to_load_from(make: Callable[[], Diagnosis]) -> None:
    text = html.unescape(page(make()))
    assert "default-src 'none'" in text
    assert re.findall(r"https?:|@import|url\(|src=", text) == []


def test_the_text_of_a_span_has_only_numbers_that_a_reader_knows() -> None:
    texts = re.findall(r"<title>(main: step, [^<]*)</title>", str(page(diagnoses.starving())))
    assert texts and not any("kind" in text for text in texts)
    assert "batch 3" in str(page(diagnoses.starving()))


def test_a_page_of_much_data_stays_small_and_reports_omissions() -> None:
    text = page(diagnoses.enormous())
    assert len(text.encode()) < 1_500_000  # 0.75 MB
    assert "The longest 1,200 of 20,000 spans are drawn." in text
    assert "The first 40 of 200 are shown." in text
    assert text.count('class="span ') == 1200


def test_findings_keep_the_order_of_the_ranking_and_the_first_one_is_the_headline() -> None:
    text = page(diagnoses.starving())
    places = [text.rindex(f">{cause}<") for cause in ("slow-source", "float32-input", "slow-callback")]
    assert places == sorted(places)
    assert "The devices wait for data in 41% of each step.</strong>" in text
    assert "It costs 38.2 ms of each 92.1 ms step." in text
    assert "11,118" in text and "18,998" in text and "1.71\N{MULTIPLICATION SIGN}" in text


def test_texts_of_the_doctor_become_sentences_and_code() -> None:
    finding = Finding("no-scale", "the learning rate was not scaled", "uint8 `a<b` `c", "use `sgd(0.4)`!", 0.0)
    text = page(Diagnosis("model", "jax", ("cpu:0",), 8, 1, 0.5, {}, (finding,)))
    assert "<strong>The learning rate was not scaled.</strong>" in text and "It costs no time now." in text
    assert "uint8 `a&lt;b` `c." in text  # a backtick without a partner
    assert "Use <code>sgd(0.4)</code>!" in text


def test_the_page_reports_a_healthy_run() -> None:
    text = page(diagnoses.healthy())
    assert "Nothing stands out." in text
    assert "verdict bad" not in text


def test_missing_measurements_are_reported_in_a_sentence() -> None:
    text = page(diagnoses.bare())
    for sentence in (
        "The parts of a step were not measured.",
        "No spans were recorded.",
        "Utilisation and memory of the devices were not sampled in this run.",
        "None were run.",
    ):
        assert sentence in text


def test_nan_is_shown_as_unknown() -> None:
    text = page(diagnoses.broken())
    assert "unknown" in text
    assert re.findall(r"\b(?:nan|inf)\b", text) == []


def test_a_lone_surrogate_can_be_written(tmp_path: Path) -> None:
    diagnosis = Diagnosis("half \ud800 of a pair", "jax", ("cpu:0",), 1, 1, 1.0, {}, ())
    write_page(diagnosis, tmp_path / "report.html")
    assert "half \N{REPLACEMENT CHARACTER} of a pair" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_file_is_replaced_as_a_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text("before")
    write_page(diagnoses.bare(), report)
    assert report.read_text(encoding="utf-8") == page(diagnoses.bare())
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    write_page(diagnoses.bare(), tmp_path / ("r" * 250 + ".html"))
    assert os.listdir(tmp_path) == ["r" * 250 + ".html"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "report.html")
    write_page(diagnoses.bare(), tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "report.html").is_file()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        AbreastError, match=r"absent/report\.html: No such file.*\nhint: give a file in a folder that exists"
    ):
        write_page(diagnoses.bare(), tmp_path / "absent" / "report.html")


def test_a_folder_and_a_pipe_are_refused_and_stay(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(AbreastError, match="it is not a file\nhint: "):
            write_page(diagnoses.bare(), path)
    assert (tmp_path / "pipe").is_fifo()


def test_a_disk_without_room_leaves_the_old_file_and_no_part_of_the_new_one(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text("before")
    with no_file_above(8192), pytest.raises(AbreastError, match=r"cannot write the page to .*\nhint: .*has room"):
        write_page(diagnoses.starving(), report)
    assert report.read_text() == "before"
    assert os.listdir(tmp_path) == ["report.html"]


@contextmanager
def no_file_above(num_bytes: int) -> Iterator[None]:
    """Inside, the system refuses to let a file grow beyond that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
