"""The page of a plan in a real browser: silent, without network, nothing hidden or too wide, predicted unlike measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from abreast import cli
from tests.bench.samples import scaling
from tests.harness.browser import Browser
from tests.harness.page_checks import FAINT, OVERLAPS, unseen

WIDE, PHONE = 1280, 390


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four devices of 32 were measured, and Keras beside them."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "lines.jsonl").write_text("".join(json.dumps(each) + "\n" for each in scaling()))
    given = ["plan", "--model", "resnet50", "--machine", "dgx-1-v100", "--devices", "32", "--epoch-rows", "1281167"]
    files = ["--measured", str(folder / "lines.jsonl"), "--html", str(folder / "plan.html")]
    assert cli.main([*given, "--price", "3", *files]) == 0
    return folder / "plan.html"


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_the_page_is_silent_and_fits_its_width(browser: Browser, page: Path, width: int) -> None:
    seen = browser.open(page, width)
    assert seen.console == []
    assert seen.requests == [page.as_uri()]
    assert browser.ask("document.documentElement.scrollWidth") == width


def test_each_figure_mark_and_row_is_seen(browser: Browser, page: Path) -> None:
    browser.open(page, WIDE)
    browser.ask("document.querySelectorAll('details').forEach(detail => { detail.open = true; })")
    for selector, number in {
        "h2": 4,
        "svg.figure": 3,
        ".figure .measured circle": 2 * (2 * 4 + 2),  # two sides, and the sample of each in the key
        ".figure .predicted circle": 2 * (6 + 1),
        ".figure .predicted > .band": 2,
        ".figures dt": 4,
    }.items():
        assert (selector, *unseen(browser, selector)) == (selector, number, [])
    assert browser.ask("[...document.querySelectorAll('tbody')].map(body => body.rows.length)")[:3] == [6, 4, 6]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, WIDE, dark=dark)
    browser.ask("document.querySelectorAll('details').forEach(detail => { detail.open = true; })")
    assert browser.ask(FAINT) == []


def test_texts_of_a_figure_do_not_overlap(browser: Browser, page: Path) -> None:
    browser.open(page, WIDE)
    assert browser.ask(OVERLAPS) == []


def test_predicted_is_dashed_and_measured_is_not(browser: Browser, page: Path) -> None:
    browser.open(page, WIDE)
    curves = "[...document.querySelectorAll('.figure .%s > path:not(.band)')].map(path => getComputedStyle(path).strokeDasharray)"
    assert set(browser.ask(curves % "measured")) == {"none"}
    assert set(browser.ask(curves % "predicted")) == {"6px, 4px"}
    bars = "[...document.querySelectorAll('.figure .%s g > rect')].map(bar => getComputedStyle(bar).strokeDasharray)"
    assert set(browser.ask(bars % "measured")) == {"none"}
    assert set(browser.ask(bars % "predicted")) == {"4px, 3px"}


def test_headings_tables_and_pictures_have_labels(browser: Browser, page: Path) -> None:
    browser.open(page, WIDE)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if "role" in node}
    for role, name in (
        ("heading", "resnet50 on dgx-1-v100"),
        ("image", "Speed-up"),
        ("image", "Where a step goes"),
        ("table", "Predicted and measured throughput"),
    ):
        assert (role, name) in named
