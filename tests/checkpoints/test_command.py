"""`abreast checkpoints`: what it prints, writes and removes, and its exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from abreast.checkpoints import report
from abreast.checkpoints.folder import checkpoint_names
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.write import write_checkpoint
from abreast.cli import main
from tests.checkpoints import export_bodies
from tests.checkpoints.samples import running_job, small
from tests.harness.client import Workers

TENSORS = "tensors-00000-of-00001.safetensors"


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A fit that has ended, and two checkpoints of the next one, of which the newer is damaged."""
    folder = tmp_path / "ckpt"
    ended = Snapshot(small().tensors, {"fit": 0, "epoch": 2, "steps": 0, "finished": True})
    write_checkpoint(folder, "fit0000-000002-000000000-final", ended)
    for step in (4, 8):
        values = {"fit": 1, "epoch": 0, "steps": step, "finished": False}
        write_checkpoint(folder, f"fit0001-000000-00000000{step}", Snapshot(small(step).tensors, values))
    os.truncate(folder / "fit0001-000000-000000008" / TENSORS, 400)
    return folder


def test_list_is_the_default(three: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        report, "_age", lambda written_at: "9 s" if written_at else "-"
    )  # time passes between the calls
    assert main(["checkpoints", str(three)]) == 0
    plain = capsys.readouterr().out
    assert main(["checkpoints", str(three), "list"]) == 0
    assert capsys.readouterr().out == plain
    header, final, whole, cut, error = plain.splitlines()
    assert header.split() == ["NAME", "FIT", "EPOCH", "STEP", "SIZE", "AGE", "GOOD"]
    assert final.split()[:6] == ["fit0000-000002-000000000-final", "0", "2", "end", "421", "bytes"]
    assert whole.split()[:4] == ["fit0001-000000-000000004", "1", "0", "4"] and whole.endswith("yes")
    assert cut.split() == ["fit0001-000000-000000008", *"-----", "no"]
    assert error.startswith(
        f"fit0001-000000-000000008: {three}/fit0001-000000-000000008/{TENSORS} is damaged: it ends at"
    )


def test_list_prints_json(three: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", str(three), "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["good"] for each in found] == [True, True, False]
    assert [each["step"] for each in found] == [0, 4, None]
    assert found[0]["finished"] is True and found[0]["bytes"] == 421
    assert all(each.keys() == found[0].keys() for each in found)


def test_json_needs_no_action(three: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", str(three), "list", "--json"]) == 0
    names = [each["name"] for each in json.loads(capsys.readouterr().out)]
    for typed in ([str(three), "--json"], ["--json", str(three)], [str(three), "--json", "list"]):
        assert main(["checkpoints", *typed]) == 0
        assert [each["name"] for each in json.loads(capsys.readouterr().out)] == names
    assert main(["checkpoints", "--json", str(three), "verify"]) == 1
    assert [each["good"] for each in json.loads(capsys.readouterr().out)] == [True, True, False]
    assert main(["checkpoints", "--json", str(three), "prune", "--keep", "1"]) == 2
    assert "prune prints no JSON\nhint: leave out --json" in capsys.readouterr().err


def test_verify_names_each_damage_and_fails(three: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = three / "fit0001-000000-000000004" / TENSORS
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert main(["checkpoints", str(three), "verify"]) == 1
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "fit0000-000002-000000000-final: every byte is as it was written"
    assert f"{file} is damaged: the tensor 'flag', bytes 420 to 421 of the file, does not fit its CRC-32" in second
    assert "is damaged: it ends at byte 400 of 421" in third
    assert main(["checkpoints", str(three), "verify", "--json"]) == 1
    assert [each["good"] for each in json.loads(capsys.readouterr().out)] == [True, False, False]


def test_verify_of_good_ones_succeeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(tmp_path, "a", small())
    assert main(["checkpoints", str(tmp_path), "verify"]) == 0
    assert capsys.readouterr().out == "a: every byte is as it was written\n"


def test_prune_keeps_the_newest_the_good_and_the_last_states(three: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(three, "fit0001-000000-000000002", small(2))
    assert main(["checkpoints", str(three), "prune", "--keep", "1"]) == 0
    assert capsys.readouterr().out == "removed fit0001-000000-000000002\n"
    assert len(checkpoint_names(three)) == 3
    assert main(["checkpoints", str(three), "prune", "--keep", "1"]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        (["missing"], "missing is not a folder\nhint: name a folder of checkpoints"),
        (["missing", "verify"], "missing is not a folder"),
        (["missing", "prune", "--keep", "1"], "cannot remove checkpoints from missing: it is not a folder"),
        ([".", "prune", "--keep", "0"], "cannot keep 0 checkpoints\nhint: keep 1 or more"),
        ([".", "export"], "has no checkpoints"),
        ([".", "export", "a"], ". has no checkpoint a"),
        ([".", "export", "-o", "missing/model.keras"], "there is no folder"),
    ],
)
def test_requests_that_cannot_be_met_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: list[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["checkpoints", *typed]) == 2
    out, err = capsys.readouterr()
    assert text in err and out == ""
    assert os.listdir(tmp_path) in ([], [".lock"])


def test_an_unknown_name_is_answered_by_the_names_that_there_are(
    three: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoints", str(three), "export", "fit0001-000000-4"]) == 2
    assert "has no checkpoint fit0001-000000-4\nhint: did you mean fit0001-000000-000000004" in capsys.readouterr().err


def test_a_folder_in_use_is_listed_and_not_pruned(three: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running_job(three) as pid:
        assert main(["checkpoints", str(three)]) == 0
        assert main(["checkpoints", str(three), "prune", "--keep", "1"]) == 2
    assert f"is in use by another job: process {pid} on host {os.uname().nodename}" in capsys.readouterr().err


@pytest.mark.in_turn
def test_an_exported_model_is_an_ordinary_file_of_keras(workers: Workers, tmp_path: Path) -> None:
    found = workers.abreast.run(export_bodies.export_and_load, folder=str(tmp_path))
    assert found == {"code": 0, "same": True, "steps": 4, "files": ["ckpt", "model.keras"]}


@pytest.mark.in_turn
def test_what_a_fit_on_two_devices_saved_is_exported(workers: Workers, tmp_path: Path) -> None:
    found = workers.abreast.run(export_bodies.export_what_a_fit_saved, folder=str(tmp_path))
    assert len(found["codes"]) >= 3 and set(found["codes"]) == {0}
    assert found["difference"] < 1e-6 and found["steps"] == 8


@pytest.mark.in_turn
def test_models_that_keras_cannot_build_or_fill_are_named_with_the_lines_that_do_it(
    workers: Workers, tmp_path: Path
) -> None:
    mine, hidden, short, turned, none, missing, ending, outside, *files = workers.abreast.run(
        export_bodies.errors, folder=str(tmp_path)
    )
    assert mine.startswith(f"Keras cannot build the model of {tmp_path}/mine/0001: Could not locate class 'Mine'")
    assert f"    fill(model, '{tmp_path}/mine', '0001')\n    model.save(\"model.keras\")" in mine
    assert hidden.startswith(f"Keras cannot build the model of {tmp_path}/lambda/0001: ") and "lambda" in hidden
    assert "has 1 variables of a model, and this model has 2" in short
    assert "has the shape (1, 4), and " in turned and "of this model (4, 1)" in turned
    assert none.startswith(f"{tmp_path}/none/0001 does not describe its model\nhint: build the model in Python")
    assert "has no checkpoints" in missing
    assert "its name does not end in .keras" in ending
    assert "is not the name of a checkpoint" in outside
    assert files == ["model.keras"]
