"""The doctor's page in a real browser: silent, without network, nothing hidden or too wide, in light and in dark."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abreast.doctor.diagnosis import Diagnosis
from abreast.doctor.page import write_page
from tests.doctor import diagnoses
from tests.harness.browser import Browser
from tests.harness.page_checks import FAINT, SHIFTS, pixels, unseen

WIDE, PHONE = 1280, 390


def written(diagnosis: Diagnosis, folder: Path) -> Path:
    write_page(diagnosis, folder / "report.html")
    return folder / "report.html"


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("make", diagnoses.EVERY)
def test_a_page_is_silent_fits_its_width_and_does_not_move(
    browser: Browser, tmp_path: Path, make: Callable[[], Diagnosis], width: int
) -> None:
    path = written(make(), tmp_path)
    seen = browser.open(path, width)
    assert seen.console == []
    assert seen.requests == [path.as_uri()]
    assert browser.ask("document.documentElement.scrollWidth") == browser.ask("innerWidth") == width
    assert browser.ask(SHIFTS) == 0


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_each_finding_part_span_and_line_is_seen(browser: Browser, tmp_path: Path, width: int, script: bool) -> None:
    diagnosis = diagnoses.starving()
    browser.open(written(diagnosis, tmp_path), width, script=script)
    for selector, number in {
        ".finding": len(diagnosis.findings),
        ".finding .bar rect": len(diagnosis.findings),
        "figure > .bar rect": len(diagnosis.breakdown),
        ".parts tbody tr": len(diagnosis.breakdown),
        ".span > rect": len(diagnosis.spans),
        ".names > div": 5 + len(diagnosis.devices),
        ".plot path": 2 * len(diagnosis.devices),
        ".experiments .bar rect": 1 + len(diagnosis.experiments),
        ".facts dt, .facts dd": 2 * len(diagnosis.facts),
    }.items():
        assert (selector, *unseen(browser, selector)) == (selector, number, [])


def test_64_devices_and_the_shortest_span_are_seen(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(diagnoses.enormous(), tmp_path))
    assert unseen(browser, ".span > rect") == (1200, [])
    assert unseen(browser, ".names > div") == (64, [])
    assert unseen(browser, ".plot path") == (128, [])
    browser.open(written(diagnoses.broken(), tmp_path))
    assert unseen(browser, ".span > rect") == (1, [])


def test_names_of_a_user_do_not_run(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(diagnoses.hostile(), tmp_path))
    assert browser.ask("document.scripts.length") == 1
    assert browser.ask("document.querySelector('h1').textContent").startswith("<script>alert('planted')</script>")


def test_the_page_may_load_nothing_even_if_markup_came_in(browser: Browser, tmp_path: Path) -> None:
    path = written(diagnoses.bare(), tmp_path)
    stray = "<script>console.log('ran')</script><img src='http://example.invalid/a.png'>"
    path.write_text(path.read_text(encoding="utf-8").replace("<footer>", f"{stray}<footer>"), encoding="utf-8")
    seen = browser.open(path)
    assert len([line for line in seen.console if "Content Security Policy" in line]) == 2
    assert not [line for line in seen.console if '"ran"' in line]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("make", [diagnoses.starving, diagnoses.healthy])
def test_every_text_can_be_read(browser: Browser, tmp_path: Path, make: Callable[[], Diagnosis], dark: bool) -> None:
    browser.open(written(make(), tmp_path), dark=dark)
    browser.ask("document.querySelectorAll('details').forEach(detail => { detail.open = true; })")
    assert browser.ask(FAINT) == []


def test_light_and_dark_are_different_and_not_blank(browser: Browser, tmp_path: Path) -> None:
    path = written(diagnoses.starving(), tmp_path)
    pictures = []
    for dark, paper in ((False, "rgb(255, 255, 255)"), (True, "rgb(20, 23, 27)")):
        browser.open(path, dark=dark)
        assert browser.ask("getComputedStyle(document.body).backgroundColor") == paper
        pictures.append(pixels(browser.screenshot(tmp_path / "picture.png")))
    assert min(map(len, pictures)) > 200  # of 800 rows
    assert pictures[0] != pictures[1]


def test_the_timeline_zooms_and_reads_out_a_span(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(diagnoses.starving(), tmp_path))
    width = "document.querySelector('.frame > svg').clientWidth / document.querySelector('.frame').clientWidth"
    assert browser.ask(width) == 1
    browser.ask("document.querySelector('[aria-label=\"Zoom in\"]').click()")
    browser.ask("document.querySelector('[aria-label=\"Zoom in\"]').click()")
    assert browser.ask(width) == pytest.approx(4)
    assert unseen(browser, ".fine text") == (29, [])
    spans = "[...document.querySelectorAll('.span')].find(span => span.textContent.startsWith('gpu:0: compute'))"
    browser.ask(f"{spans}.querySelector('rect').dispatchEvent(new PointerEvent('pointerover', {{bubbles: true}}))")
    assert browser.ask("document.querySelector('.readout').textContent").startswith("gpu:0: compute, 41.")
    assert browser.ask("document.documentElement.scrollWidth") == WIDE


def test_names_stand_only_in_spans_with_room_for_them(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(diagnoses.starving(), tmp_path))
    shown = """[...document.querySelectorAll(".label text")].filter(text => getComputedStyle(text).visibility === "visible")"""
    assert browser.ask(f"{shown}.length") >= 20
    ends = "text.closest('g').querySelector('rect').getBoundingClientRect().right"
    cut = f"{shown}.filter(text => text.getBoundingClientRect().right > {ends})"
    assert browser.ask(f"{cut}.length") == 0


def test_headings_tables_and_pictures_have_labels(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(diagnoses.starving(), tmp_path))
    nodes: list[dict[str, Any]] = browser.call("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if "role" in node}
    assert ("main", "") in named
    for role, name in (
        ("heading", "resnet50"),
        ("heading", "Timeline"),
        ("region", "Timeline of a few steps, scrolls when zoomed"),
        ("table", "Parts of the median step"),
        ("image", "Utilisation of the devices"),
        ("button", "Zoom in"),
    ):
        assert (role, name) in named
    assert not [name for role, name in named if role in ("image", "button", "heading", "table") and not name]


def test_the_page_can_be_printed(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(diagnoses.starving(), tmp_path))
    printed = base64.b64decode(browser.call("Page.printToPDF", printBackground=True)["data"])
    assert printed.startswith(b"%PDF")
    assert 2 <= printed.count(b"/Type /Page\n") <= 8


def test_these_checks_notice_planted_faults(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(
        "<!doctype html><style>body{background:#fff}</style><p style='width:1500px'>wide</p><p style='color:#ccc'>faint</p>"
        "<svg><rect class='thin' width='0' height='9'/></svg><img src='http://127.0.0.1:9/a.png'>"
        "<script>console.error('loud')</script>"
    )
    seen = browser.open(path)
    assert any("loud" in line for line in seen.console)
    assert seen.requests == [path.as_uri(), "http://127.0.0.1:9/a.png"]
    assert browser.ask("document.documentElement.scrollWidth") > WIDE
    assert browser.ask(FAINT) == ["faint"]
    assert unseen(browser, ".thin")[1] == ['<rect class="thin" width="0" height="9"></rect>']
    assert browser.ask(SHIFTS) == 0
    browser.ask("document.querySelector('p').style.marginTop = '300px'")
    assert browser.ask(SHIFTS) > 0
