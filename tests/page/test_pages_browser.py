"""Every page in a real browser, wide and on a phone: its keys, its tables, its texts, and its colours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abreast import cli
from abreast.bench.report import PAGE, write_report
from abreast.bench.series import comparisons
from abreast.doctor.page import write_page
from tests.bench.samples import MACHINE, line, predictions, scaling
from tests.doctor import diagnoses
from tests.harness.browser import Browser
from tests.harness.page_checks import FAINT, OVERLAPS, keys, tables

WIDE, PHONE = 1280, 390
Write = Callable[[Path], Path]


def bench(folder: Path) -> Path:
    """With predictions, a long name, a step whose parts the backend does not separate, and a noisy measurement."""
    name = "package.of_somebody.training:make_the_model_that_we_use"
    mine = [line(devices, 0.02, model=name, simulated=True, machine=MACHINE) for devices in (1, 2)]
    mine[1] |= {"all_reduce_told": False, "step_parts_seconds": {"compute": 0.0199, "callbacks": 1e-6}}
    noisy = [line(devices, 0.1, model="vgg16") | {"cores_of_others": 2.0 * (devices == 2)} for devices in (1, 2, 4)]
    write_report(comparisons([*scaling(), *mine, *noisy], predictions()), folder)
    return folder / PAGE


def plan(folder: Path) -> Path:
    """Beside measurements, with a price."""
    (folder / "lines.jsonl").write_text("".join(json.dumps(each) + "\n" for each in scaling()))
    given = ["plan", "--model", "resnet50", "--machine", "dgx-1-v100", "--devices", "32", "--epoch-rows", "1281167"]
    files = ["--measured", str(folder / "lines.jsonl"), "--html", str(folder / "plan.html")]
    assert cli.main([*given, "--price", "3 EUR", *files]) == 0
    return folder / "plan.html"


def plan_without_predictions(folder: Path) -> Path:
    given = "plan --model vgg16 --machine pcie3-x1-box --batch 1 --step-time 0.001 --no-overlap"
    assert cli.main([*given.split(), "--html", str(folder / "plan.html")]) == 0
    return folder / "plan.html"


def doctor(make: Callable[[], Any]) -> Write:
    def write(folder: Path) -> Path:
        write_page(make(), folder / "doctor.html")
        return folder / "doctor.html"

    write.__name__ = f"doctor_{make.__name__}"
    return write


EVERY: tuple[Write, ...] = (bench, plan, plan_without_predictions, *map(doctor, diagnoses.EVERY))
of_every_page = pytest.mark.parametrize("write", EVERY, ids=lambda write: write.__name__)
at_both_widths = pytest.mark.parametrize("width", [WIDE, PHONE])
UNFOLD = "document.querySelectorAll('details').forEach(detail => { detail.open = true; })"


def opened(browser: Browser, page: Path, width: int, dark: bool = False) -> None:
    browser.open(page, width, dark=dark)
    browser.ask(UNFOLD)


@at_both_widths
@of_every_page
def test_tables_can_be_read_and_nothing_is_cut_off(browser: Browser, tmp_path: Path, write: Write, width: int) -> None:
    opened(browser, write(tmp_path), width)
    assert tables(browser) == []
    assert browser.ask("document.documentElement.scrollWidth") == width


@of_every_page
def test_a_key_has_what_is_drawn_and_each_colour_once(browser: Browser, tmp_path: Path, write: Write) -> None:
    opened(browser, write(tmp_path), WIDE)
    assert keys(browser) == []


@at_both_widths
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("write", [bench, plan, doctor(diagnoses.starving)], ids=lambda write: write.__name__)
def test_texts_can_be_read(browser: Browser, tmp_path: Path, write: Write, width: int, dark: bool) -> None:
    opened(browser, write(tmp_path), width, dark)
    assert browser.ask(FAINT) == []
    assert browser.ask(OVERLAPS) == []


PAGE_TEXT = """<!doctype html><meta name="viewport" content="width=device-width"><style>
  body {{ overflow-wrap: anywhere; font: 14px sans-serif }} .c0 {{ --fill: #f00 }} .c1 {{ --fill: #00f }}
  .swatch {{ background: var(--fill) }} rect {{ fill: var(--fill) }} {style}</style>{body}"""
ROW = "<tr><th>devices</th>" + "<td style='white-space:nowrap'>1,234 rows per second</td>" * 4 + "</tr>"
KEY = "<ul class='legend'><li><span class='swatch {}'></span>one</li><li><span class='swatch {}'></span>two</li></ul>"
BAR = (
    "<svg class='figure'><g class='key'><g><rect class='{}' width='9' height='9'/><text>one</text></g></g>"
    "<rect class='{}' width='{}' height='9'/></svg>"
)


@pytest.mark.parametrize(
    ("style", "body", "found"),
    [
        ("", f"<table>{ROW}</table>", "one letter below another: devices"),
        ("table { width: 300px; overflow: hidden; display: block }", f"<table>{ROW}</table>", "cut off"),
    ],
)
def test_a_table_that_cannot_be_read_is_noticed(
    browser: Browser, tmp_path: Path, style: str, body: str, found: str
) -> None:
    (tmp_path / "page.html").write_text(PAGE_TEXT.format(style=style, body=body))
    opened(browser, tmp_path / "page.html", PHONE)
    assert any(found in each for each in tables(browser))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (KEY.format("c0", "c0"), "one and two have one colour"),
        (KEY.format("c0", "c1"), "one is not drawn"),
        (BAR.format("c0", "c1", 90), "one is not drawn"),
        (BAR.format("c0", "c0", 0.3), "one is not drawn"),
    ],
)
def test_a_wrong_key_is_noticed(browser: Browser, tmp_path: Path, body: str, found: str) -> None:
    (tmp_path / "page.html").write_text(PAGE_TEXT.format(style="", body=f"<section>{body}</section>"))
    opened(browser, tmp_path / "page.html", WIDE)
    assert found in keys(browser)
