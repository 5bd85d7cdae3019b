"""The doctor's page in a real browser: silent, without network, nothing hidden or too wide, in light and in dark."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abreast.measure.diagnosis import Diagnosis
from abreast.measure.page import write_page
from tests.harness.browser import Browser
from tests.measure import diagnoses

WIDE, PHONE = 1280, 390
EVERY = [
    diagnoses.starving,
    diagnoses.healthy,
    diagnoses.bare,
    diagnoses.hostile,
    diagnoses.broken,
    diagnoses.enormous,
]

# How many elements fit a selector, and which of them have no box, are not visible, or lie outside of the page.
_UNSEEN = """(selector => {
  const found = [...document.querySelectorAll(selector)];
  const unseen = found.filter(element => {
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    const outside = box.left < -0.5 || box.right > document.documentElement.scrollWidth + 0.5;
    const scrolls = element.closest(".frame") !== null;
    return !(box.width > 0 && box.height > 0) || style.visibility !== "visible" || style.opacity === "0" || (outside && !scrolls);
  });
  return [found.length, unseen.map(element => element.outerHTML.slice(0, 200))];
})"""

# Texts whose contrast with what is behind them is below 4.5.
_FAINT = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const rgb = colours => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    const label = element.closest("svg.label");
    const box = label && label.previousElementSibling;
    const layers = [];
    if (box) {
      const style = getComputedStyle(box);
      layers.push(`color-mix(in srgb, ${style.fill} ${100 * style.fillOpacity}%, transparent)`);
    }
    for (let at = element; at; at = at.parentElement) layers.push(getComputedStyle(at).backgroundColor);
    return layers.reverse();
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script, title, style")) continue;
    if (getComputedStyle(element).visibility !== "visible") continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const [low, high] = [light(rgb(back)), light(rgb([...back, element.closest("svg") ? style.fill : style.color]))].sort();
    if ((Math.max(low, high) + .05) / (Math.min(low, high) + .05) < 4.5) faint.push(walker.currentNode.data.slice(0, 60));
  }
  return faint;
})()"""


def written(diagnosis: Diagnosis, folder: Path) -> Path:
    write_page(diagnosis, folder / "report.html")
    return folder / "report.html"


def unseen(browser: Browser, selector: str) -> tuple[int, list[str]]:
    number, hidden = browser.ask(f"{_UNSEEN}({json.dumps(selector)})")
    return number, hidden


def pixels(png: bytes) -> set[bytes]:
    """The distinct rows of a picture, as it stores them: a blank one has one or two."""
    data, place = b"", 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            data += png[place + 8 : place + 8 + length]
        place += length + 12
    raw = zlib.decompress(data)
    (height,) = struct.unpack(">I", png[20:24])
    size = len(raw) // height
    return {raw[start : start + size] for start in range(0, len(raw), size)}


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("make", EVERY)
def test_a_page_is_silent_fits_its_width_and_does_not_move(
    browser: Browser, tmp_path: Path, make: Callable[[], Diagnosis], width: int
) -> None:
    path = written(make(), tmp_path)
    seen = browser.open(path, width)
    assert seen.console == []
    assert seen.requests == [path.as_uri()]
    assert browser.ask("document.documentElement.scrollWidth") == browser.ask("innerWidth") == width
    assert browser.ask(_SHIFTS) == 0


_SHIFTS = """new Promise(done => {
  let sum = 0;
  new PerformanceObserver(list => { for (const entry of list.getEntries()) sum += entry.value; })
    .observe({type: "layout-shift", buffered: true});
  setTimeout(() => done(sum), 50);
})"""


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


def test_what_a_user_named_does_not_run(browser: Browser, tmp_path: Path) -> None:
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
    assert browser.ask(_FAINT) == []


def test_light_and_dark_are_different_pictures_of_something(browser: Browser, tmp_path: Path) -> None:
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


def test_headings_tables_and_pictures_say_what_they_are(browser: Browser, tmp_path: Path) -> None:
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


def test_these_checks_notice_what_they_look_for(browser: Browser, tmp_path: Path) -> None:
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
    assert browser.ask(_FAINT) == ["faint"]
    assert unseen(browser, ".thin")[1] == ['<rect class="thin" width="0" height="9"></rect>']
    assert browser.ask(_SHIFTS) == 0
    browser.ask("document.querySelector('p').style.marginTop = '300px'")
    assert browser.ask(_SHIFTS) > 0
