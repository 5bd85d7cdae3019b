"""Noisy measurements: the reasons, the load of other processes, and no ratio of a noisy one on the terminal or the page."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from abreast import cli
from abreast.bench import lines, load, plots, table
from abreast.bench.load import LoadOfOthers
from abreast.bench.noise import TOO_NOISY, noise
from abreast.bench.report import page
from abreast.bench.series import Comparison, comparisons
from abreast.units import times
from tests.bench.samples import MACHINE, line, scaling

APART = "quartiles apart by 43% of the median"


def spread(devices: int, seconds: float, apart: float, side: str = "abreast") -> dict[str, Any]:
    """A line whose quartiles are `apart`, as a share of its median."""
    return line(devices, seconds, side) | {"quartiles": [(1 - apart / 2) * seconds, (1 + apart / 2) * seconds]}


def test_quartiles_apart_by_more_than_a_fifth_are_noise() -> None:
    assert noise(spread(2, 0.1, 0.19)) == ""
    assert noise(spread(2, 0.1, 0.43)) == APART


def test_load_of_more_than_a_tenth_of_the_cores_is_noise() -> None:
    eight = line(2, 0.1, machine=MACHINE)
    assert noise(eight | {"cores_of_others": 0.7}) == noise(eight | {"cores_of_others": None}) == ""
    assert noise(eight | {"cores_of_others": 1.25}) == "other processes used 1.2 of 8 cores"


def test_load_is_all_work_without_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"_busy_seconds": [10.0, 16.0], "_own_seconds": [3.0, 7.0]}
    for name, found in values.items():
        monkeypatch.setattr(load, name, iter(found).__next__)
    monkeypatch.setattr("time.monotonic", iter([100.0, 104.0]).__next__)
    assert LoadOfOthers().cores() == 0.5


def test_work_of_another_process_is_load() -> None:
    """A grandchild that outlives its parent is no child of this process."""
    burn = "import time; end = time.monotonic() + 1.2\nwhile time.monotonic() < end: pass"
    start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}])"
    counted = LoadOfOthers()
    subprocess.run([sys.executable, "-c", start], check=True)
    time.sleep(1.5)
    used = counted.cores()
    assert used is not None and used > 0.2  # measured 0.7 of a core on a machine without other work


def test_a_noisy_point_has_no_ratio_in_the_table() -> None:
    (found,) = comparisons([line(1, 0.1), spread(2, 0.08, 0.43), line(4, 0.1)])
    shown = table.report([found]).splitlines()
    assert [row[3:5] for row in table.rows(found)] == [(times(1), "100%"), (TOO_NOISY, TOO_NOISY), (times(4), "100%")]
    assert shown[-2:-1] == [f"too noisy: abreast on 2 devices: {APART}"]
    assert shown[-1].startswith("hint: leave the machine to the measurement")


def test_a_noisy_base_leaves_no_speed_up_at_all() -> None:
    (found,) = comparisons([spread(1, 0.1, 0.43), line(2, 0.1), line(1, 0.1, "keras"), line(2, 0.2, "keras")])
    rows = {(row[0], row[1]): row[3:5] for row in table.rows(found)}
    assert rows["abreast", "2"] == (TOO_NOISY, TOO_NOISY)
    assert rows["keras", "2"] == (TOO_NOISY, "50%")  # its efficiency is over its own step on one device
    assert [name for name, _, _ in plots.figures(found)] == ["efficiency", "step"]


def test_steady_measurements_have_no_notes() -> None:
    (found,) = comparisons(scaling())
    assert TOO_NOISY not in table.report([found]) and "oo noisy" not in page([found])


def noisy_comparison() -> Comparison:
    (found,) = comparisons([*scaling(), spread(2, 0.08, 0.43)])
    return found


def test_the_page_says_what_is_noisy_and_draws_no_mark_of_it() -> None:
    text = page([noisy_comparison()])
    assert f"abreast on 2 devices: {APART}" in text and "2 devices, too noisy" in text
    figures = {name: drawing for name, _, drawing in plots.figures(noisy_comparison())}
    for name in ("speed-up", "efficiency"):
        assert "abreast, 4: " in figures[name] and "keras, 2: " in figures[name]
        assert "abreast, 2: " not in figures[name]


def test_the_terminal_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines.append(tmp_path / "bench.jsonl", [line(1, 0.1), spread(2, 0.08, 0.43)])
    assert cli.main(["bench", "-o", str(tmp_path / "bench.jsonl"), "--report", str(tmp_path / "out")]) == 0
    assert f"abreast on 2 devices: {APART}" in (tmp_path / "out" / "table.txt").read_text()


def test_a_plan_from_a_noisy_step_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines.append(tmp_path / "bench.jsonl", [spread(1, 0.1, 0.43), line(2, 0.11)])
    given = ["plan", "--model", "resnet50", "--machine", "dgx-1-v100", "--measured", str(tmp_path / "bench.jsonl")]
    assert cli.main([*given, "--html", str(tmp_path / "plan.html")]) == 0
    assert f"bench.jsonl; too noisy: {APART})" in capsys.readouterr().out
    assert f"left out of the figures: abreast on 1 device: {APART}." in (tmp_path / "plan.html").read_text()
