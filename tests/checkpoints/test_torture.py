"""`abreast torture`: every fault fires and is recovered from, and with durability switched off it goes red."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abreast import cli
from abreast.run import RunOptions
from abreast.torture import campaign, faults, report, start
from abreast.torture.campaign import Campaign, Request, torture
from abreast.torture.command import FAULTS
from abreast.torture.side import StartSpec
from abreast.torture.start import Start
from tests.harness.client import ROOT
from tests.harness.folder import Folder

PROGRAM = f"""
import sys
sys.path[:1] = [{{package!r}}, {str(ROOT)!r}]
from tests.checkpoints.stand_in import main
sys.exit(main(sys.argv[1], int(sys.argv[2])))
"""

SCRIPT = """
import keras
import numpy as np

x = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse")
model.fit(x, x[:, :1], batch_size=16, epochs=3, verbose=0)
"""


def stand_in(
    place: Path, faults: tuple[str, ...], rounds: int = 2, seed: int = 1, off: str = "", script: str = "as it should"
) -> Campaign:
    """A campaign on NumPy's stand-in for a script, with real processes and files."""
    one, two = RunOptions(cpu_devices=1), RunOptions(cpu_devices=2)
    spec = StartSpec(script, (), False, two, "", every=5, broken=off)
    return torture(Request(spec, (two, one), faults, seed, rounds, None), place, lambda _: None)


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "real" not in request.node.name:
        monkeypatch.setattr(start, "_PROGRAM", PROGRAM)


@pytest.mark.in_turn
def test_every_fault_fires_and_is_recovered_from(tmp_path: Path) -> None:
    found = stand_in(tmp_path, FAULTS, rounds=6)
    counts = report.counts(found)
    assert report.problems(found) == []
    assert not found.is_wrong
    assert list(counts) == ["none", *FAULTS, "end"]
    for fault, row in counts.items():
        assert 1 <= row["fired"] == row["recovered"] <= row["injected"], (fault, row)
        assert row["wrong"] == 0


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("off", "faults", "message"),
    [
        ("fsync", ("save",), "is not whole"),
        ("rename", ("save",), "is not whole"),
        ("checksum", ("flip",), "nothing was said about the damaged"),
    ],
)
def test_with_durability_switched_off_it_goes_red(
    tmp_path: Path, off: str, faults: tuple[str, ...], message: str
) -> None:
    found = stand_in(tmp_path, faults, rounds=2, off=off)
    assert found.is_wrong
    assert message in report.text(found)


@pytest.mark.in_turn
def test_a_step_that_is_lost_is_noticed_at_the_end(tmp_path: Path) -> None:
    found = stand_in(tmp_path, ("flip", "devices"), script="loses a step")
    assert all(one.problems for one in found.rounds)
    assert "its end: fit 1, its history is not equal bit for bit (weights: " in report.text(found)


def test_a_signal_after_the_end_of_a_script_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def after_its_end(start: Start, *_: object) -> bool:
        return start.wait_for(lambda: bool(start.notes("unwatched"))) and start.sleep(0.3)

    monkeypatch.setattr(campaign, "_MOST_FAULTS", 1)
    monkeypatch.setattr(faults, "_moment", after_its_end)
    monkeypatch.setattr(faults, "ways", lambda fault: ("SIGTERM",))
    (one,) = stand_in(tmp_path, ("stop",), rounds=1, script="ends slowly").rounds
    assert [each.late for each in one.injections] == [True]
    assert not one.is_wrong, one


def test_a_fault_that_never_fires_is_no_success(tmp_path: Path) -> None:
    found = stand_in(tmp_path, ("flip",), rounds=1, script="as it should", seed=1)
    one = found.rounds[0]
    for each in one.injections:
        each.fired = False
    assert found.is_wrong
    assert "flip never fired, so nothing is shown" in report.text(found)


@pytest.mark.full
def test_a_real_script_is_tortured(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its run undisturbed, one with checkpoints, one that is killed in its first save, and one that goes to the end."""
    monkeypatch.setattr(campaign, "_MOST_FAULTS", 1)
    end = tortured(
        tmp_path, monkeypatch, capsys, "--backend", backend, "--rounds", "1", "--faults", "save", "--seed", "1"
    )
    assert (end["ok"], end["problems"]) == (True, [])
    assert end["faults"]["save"] == {"injected": 1, "fired": 1, "recovered": 1, "wrong": 0}


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_a_real_script_survives_every_fault(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    end = tortured(tmp_path, monkeypatch, capsys, "--backend", backend, "--rounds", "6", "--seed", "3")
    assert (end["ok"], end["problems"]) == (True, [])
    assert [fault for fault, row in end["faults"].items() if row["fired"] != row["recovered"]] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--faults", "kil"), "there is no fault 'kil'\nhint: did you mean kill?"),
        (("--faults", ","), "--faults names no fault\nhint: give some of kill,save"),
        (("--rounds", "0"), "--rounds 0 is not allowed\nhint: give 1 or more"),
        (("--minutes", "-1"), "--minutes -1 is not allowed\nhint: give more than 0"),
        (("--checkpoint-every", "never"), "--checkpoint-every 'never' is not allowed\nhint: "),
    ],
)
def test_options_that_make_no_sense_are_errors_before_anything_starts(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    folder = Folder(tmp_path)
    end = folder.abreast("torture", *options, folder.write("train.py", "print('not here')"))
    assert (end.code, end.out) == (2, "")
    assert end.err.startswith(f"abreast: error: {message}")


def tortured(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str
) -> dict[str, Any]:
    """What `abreast torture --json` prints, from a folder of its own."""
    folder = Folder(place)
    monkeypatch.chdir(place)
    for name, value in folder.environ(JAX_PLATFORMS="cpu").items():
        monkeypatch.setenv(name, value)
    code = cli.main(["torture", "--json", *options, folder.write("train.py", SCRIPT)])
    output = capsys.readouterr()
    assert code in (0, 1), output.err
    found: dict[str, Any] = json.loads(output.out)
    return found
