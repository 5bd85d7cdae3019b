"""`abreast doctor` as a user types it: its stdout, its stderr, its files, and its exit code."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from abreast import cli
from abreast.doctor.diagnosis import Diagnosis, Finding
from abreast.doctor.report import report
from abreast.doctor.script import write_json
from abreast.errors import AbreastError
from abreast.samplers.sample import DeviceSample
from tests.harness.folder import Folder

TRAINS = """
    import sys, time
    import keras, numpy as np

    def batches():
        while True:
            time.sleep(0.02)
            yield np.ones((32, 8), "float32"), np.ones((32, 1), "float32")

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    print("before", sys.argv[1:])
    try:
        model.fit(batches(), None, None, 3, steps_per_epoch=50)
    except Exception:
        print("caught")
    print("after")
"""


@pytest.mark.in_turn
def test_the_first_fit_of_a_script_is_diagnosed(folder: Folder) -> None:
    folder.write("train.py", TRAINS)
    options = ("--backend", "jax", "--cpu-devices", "2", "--steps", "10", "--html", "page.html", "--json", "out.json")
    result = folder.abreast("doctor", *options, "train.py", "--epochs", "3")
    assert result.code == 0, result.err
    first, finding = result.out.split("\n\n")[:2]
    assert first.startswith("sequential on 2 devices (cpu:0 to cpu:1), jax: ")
    assert finding.startswith("slow-reading: devices wait ")
    assert "batches (train.py:6)" in finding
    assert "\nhint: " in finding
    assert "rows/s" in finding
    assert "before ['--epochs', '3']" in result.err
    assert "abreast: diagnosing the first fit (train.py:13); the script ends there" in result.err
    # More steps than asked for if they are short, so that a turn lasts.
    found = re.search(r"measuring in \d turns of (\d+) steps or more: as given, same batch, source alone", result.err)
    assert found is not None and int(found[1]) > 2, result.err
    assert "after" not in result.err + result.out
    assert "caught" not in result.err + result.out
    data = json.loads((folder.path / "out.json").read_text())
    assert data["findings"][0]["cause"] == "slow-reading"
    assert {"as given", "same batch", "source alone"} <= {one["name"] for one in data["experiments"]}
    assert data["spans"]
    assert "slow-reading" in (folder.path / "page.html").read_text()


@pytest.mark.in_turn
def test_after_its_fit_a_script_trains_nothing_and_saves_nothing(folder: Folder) -> None:
    """Though it catches everything."""
    body = TRAINS.replace("except Exception:", "except BaseException:").replace(
        'print("after")',
        """try:
        model.fit(batches(), steps_per_epoch=50)
        print("trained on")
    finally:
        model.save("model.keras")""",
    )
    (folder.path / "model.keras").write_text("the best of a long run")
    folder.write("train.py", body)
    result = folder.abreast("doctor", "--backend", "jax", "--steps", "5", "train.py")
    assert result.code == 0, result.err
    assert "caught" in result.err
    assert "trained on" not in result.err
    assert (folder.path / "model.keras").read_text() == "the best of a long run"


def test_a_script_without_a_fit_is_reported(folder: Folder) -> None:
    folder.write("train.py", "print('hello')")
    result = folder.abreast("doctor", "train.py")
    assert (result.code, result.out) == (2, "")
    assert "abreast: error: train.py ended without calling fit\nhint: " in result.err


def test_a_script_that_fails_before_its_fit_ends_as_in_python(folder: Folder) -> None:
    folder.write("train.py", "raise RuntimeError('planted')")
    result = folder.abreast("doctor", "train.py")
    assert (result.code, result.out) == (1, "")
    assert result.err.endswith("RuntimeError: planted\n")
    folder.write("train.py", "raise SystemExit(7)")
    assert folder.abreast("doctor", "train.py").code == 7


def test_too_few_steps_are_refused_before_the_script_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--steps", "1", "no-such-script.py"]) == 2
    assert "abreast: error: steps=1 is not allowed\nhint: ask for at least 5 steps" in capsys.readouterr().err


def test_help_describes_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["doctor", "--help"])
    text = capsys.readouterr().out
    assert text.startswith("usage: abreast doctor [options] SCRIPT [arguments of the script]\n")
    for option in ("--steps N", "--html FILE", "--json FILE", "--devices SPEC", "--cpu-devices N"):
        assert text.count(option) == 1


def test_a_report_shows_cause_evidence_and_advice() -> None:
    finding = Finding(
        "slow-reading", "devices wait 50% of each step for data", "20 ms of 40 ms", "cache it", 0.02, 3200
    )
    text = report(diagnosis(finding))
    assert text == (
        "net on 2 devices (cpu:0 to cpu:1), jax: 40.0 ms a step of 64 rows, 1,600 rows/s (median, 30 steps)\n"
        "a step: waiting for input 20.0 ms, computing 20.0 ms\n\n"
        "slow-reading: devices wait 50% of each step for data (20 ms of 40 ms)\n"
        "hint: cache it (then about 3,200 rows/s, 2.0 times as many)"
    )


def test_a_report_of_a_healthy_run_states_that_nothing_was_found() -> None:
    assert report(diagnosis()).endswith("\n\nnothing found: no experiment saves a tenth of a step")


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AbreastError, match=r"cannot write .*: No such file or directory\nhint: "):
        write_json(diagnosis(), tmp_path / "no-folder" / "out.json")


def test_nan_is_null_in_json(tmp_path: Path) -> None:
    found = replace(diagnosis(), samples=(DeviceSample("gpu:0", 0, math.nan, 1),))
    write_json(found, tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["samples"][0]["utilisation"] is None


def diagnosis(*findings: Finding) -> Diagnosis:
    parts = {"waiting for input": 0.02, "computing": 0.02}
    return Diagnosis("net", "jax", ("cpu:0", "cpu:1"), 64, 30, 0.04, parts, findings)
