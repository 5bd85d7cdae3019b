"""The report page in a real browser: silent, without network, nothing hidden or too wide, in light and in dark."""

from __future__ import annotations

from pathlib import Path

import pytest

from abreast.bench.report import write_report
from abreast.bench.series import comparisons
from tests.bench.samples import MACHINE, line, predictions, scaling
from tests.harness.browser import Browser
from tests.harness.page_checks import FAINT, OVERLAPS, pixels, unseen

WIDE, PHONE = 1280, 390


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two comparisons: one with predictions beside it, and one of a model with a long name on simulated devices."""
    name = "package.of_somebody.training:make_the_model_that_we_use"
    mine = [line(devices, 0.02, model=name, simulated=True, machine=MACHINE) for devices in (1, 2)]
    folder = tmp_path_factory.mktemp("report")
    write_report(comparisons([*scaling(), *mine], predictions()), folder)
    return folder


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_the_page_is_silent_and_fits_its_width(browser: Browser, report: Path, width: int) -> None:
    path = report / "report.html"
    seen = browser.open(path, width)
    assert seen.console == []
    assert seen.requests == [path.as_uri()]
    assert browser.ask("document.documentElement.scrollWidth") == width


def test_each_figure_mark_bar_and_row_is_seen(browser: Browser, report: Path) -> None:
    browser.open(report / "report.html", WIDE)
    for selector, number in {
        "h2": 2,
        "svg.figure": 6,
        ".measured circle > title": 0,  # a title has no box
        ".predicted circle": 2 * (5 + 1),
        ".figure .predicted > .band": 2,
        "tbody tr": 4 + 4 + 5 + 2,
        ".contents a": 2,
    }.items():
        if number:
            assert (selector, *unseen(browser, selector)) == (selector, number, [])


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(browser: Browser, report: Path, dark: bool) -> None:
    browser.open(report / "report.html", WIDE, dark=dark)
    browser.ask("document.querySelectorAll('details').forEach(detail => { detail.open = true; })")
    assert browser.ask(FAINT) == []


def test_texts_of_a_figure_do_not_overlap(browser: Browser, report: Path) -> None:
    browser.open(report / "report.html", WIDE)
    assert browser.ask(OVERLAPS) == []


def test_predicted_is_dashed_and_hollow_and_measured_is_not(browser: Browser, report: Path) -> None:
    browser.open(report / "report.html", WIDE)
    style = "[...document.querySelectorAll('.figure .%s > path:not(.band)')].map(path => getComputedStyle(path).strokeDasharray)"
    assert set(browser.ask(style % "measured")) == {"none"}
    assert set(browser.ask(style % "predicted")) == {"6px, 4px"}
    fills = "[...document.querySelectorAll('.figure .%s circle')].map(circle => getComputedStyle(circle).fill)"
    assert set(browser.ask(fills % "predicted")) == {"rgb(255, 255, 255)"}
    assert "rgb(255, 255, 255)" not in browser.ask(fills % "measured")


def test_a_figure_on_its_own_is_not_blank(browser: Browser, report: Path, tmp_path: Path) -> None:
    drawing = next(report.glob("*speed-up.svg"))
    for dark in (False, True):
        seen = browser.open(drawing, 640, 360, dark=dark)
        assert seen.console == []
        assert len(pixels(browser.screenshot(tmp_path / "picture.png"))) > 100  # of 360 rows


def test_headings_tables_and_pictures_have_labels(browser: Browser, report: Path) -> None:
    browser.open(report / "report.html", WIDE)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if "role" in node}
    title = "resnet50 on jax, float32, 64 rows per device, input host"
    for role, name in (("heading", title), ("image", "Efficiency"), ("table", f"Measurements of {title}")):
        assert (role, name) in named


@pytest.mark.usefixtures("browser")
def test_png_files_are_what_the_browser_draws(tmp_path: Path) -> None:
    files = write_report(comparisons(scaling()), tmp_path, png=True)
    pictures = [path for path in files if path.suffix == ".png"]
    assert len(pictures) == 3
    assert all(len(pixels(path.read_bytes())) > 50 for path in pictures)
