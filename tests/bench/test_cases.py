"""Cases as data: valid and invalid options and files, and the errors for the invalid ones. No framework is needed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from abreast import cli
from abreast.bench import models
from abreast.bench.case_file import read_requests
from abreast.bench.cases import Cell, Request, counts, doubling, shape_of, variant_settings
from tests.bench.samples import case

SETTINGS: dict[str, Any] = {"simulated": True, "rounds": 5, "steps": None, "warm_up": 3}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The message of `abreast bench` for arguments that it refuses."""
    assert cli.main(["bench", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


@pytest.fixture(autouse=True)
def nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An error leaves no file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench.txt").write_text("not a folder")
    before = set(tmp_path.iterdir())
    yield
    left = {path.name for path in set(tmp_path.iterdir()) - before}
    assert not left & {"bench.jsonl", "out"}


def test_a_case_has_as_many_rows_per_device_or_in_all() -> None:
    weak = Request("mlp", ["jax"], [1, 2, 4], batch=32).cells(**SETTINGS)
    assert [(cell.case.devices, cell.case.rows, cell.case.scaling) for cell in weak] == [
        (1, 32, "weak"),
        (2, 64, "weak"),
        (4, 128, "weak"),
    ]
    strong = Request("mlp", ["jax"], [1, 2, 4], global_batch=128).cells(**SETTINGS)
    assert {(cell.case.rows, cell.case.scaling) for cell in strong} == {(128, "strong")}


def test_backends_precisions_and_devices_are_multiplied_and_sides_take_turns() -> None:
    request = Request("mlp", ["jax", "torch"], [1, 2], precision=("float32", "bfloat16"), against=("native",))
    cells = Request(**vars(request) | {"variants": ("Prefetch=0,batch-norm=LOCAL",)}).cells(**SETTINGS)
    assert len(cells) == 8
    assert cells[0].sides == ("abreast", "abreast batch_norm=local,prefetch=0", "native")
    assert variant_settings(cells[0].sides[1]) == {"batch_norm": "local", "prefetch": 0}


def test_keras_has_no_way_to_several_devices_on_torch_and_is_left_out_there() -> None:
    request = Request("mlp", ["jax", "torch"], [1, 2], against=("keras",))
    assert [cell.sides[1:] for cell in request.cells(**SETTINGS)] == [("keras",), ("keras",), ("keras",), ()]
    assert request.absent() == ["Keras does not train on several devices on torch: it is measured on one"]
    assert Request("mlp", ["torch"], [1], against=("keras",)).absent() == []


def test_a_cell_goes_to_its_process_and_back_as_text() -> None:
    cell = Cell(case(2, input_shape=(32, 32, 3)), ("abreast", "keras"), 7, None, 2)
    assert Cell.from_json(cell.to_json()) == cell


@pytest.mark.parametrize("name", ["ResNet50", "resnet50", "resnet-50", "RESNET_50"])
def test_a_model_has_one_name_however_it_is_spelled(name: str) -> None:
    assert models.resolve(name) == "resnet50"


@pytest.mark.parametrize(("text", "numbers"), [("1,2,4", (1, 2, 4)), ("1-4", (1, 2, 3, 4)), ("4,1-2,2", (1, 2, 4))])
def test_numbers_of_devices_are_a_list_or_a_range(text: str, numbers: tuple[int, ...]) -> None:
    assert counts(text) == numbers


def test_without_a_list_numbers_of_devices_double_up_to_all() -> None:
    assert [doubling(most) for most in (1, 2, 6, 8)] == [(1,), (1, 2), (1, 2, 4, 6), (1, 2, 4, 8)]


def test_a_shape_is_written_with_commas_or_crosses() -> None:
    assert shape_of("32,32,3") == shape_of("32x32x3") == (32, 32, 3)


def test_cases_of_a_file_override_the_command(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    path.write_text(
        json.dumps([{"model": "mlp", "batch": 16}, {"model": "vgg16", "devices": [2], "against": ["keras"]}])
    )
    defaults = Request("", ("jax",), (1, 4), global_batch=256)
    first, second = read_requests(path, defaults)
    assert (first.batch, first.global_batch, first.devices) == (16, None, (1, 4))
    assert (second.global_batch, second.devices, second.against) == (256, (2,), ("keras",))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to do\nhint: name a model, as in `abreast bench mlp`, or a folder for --report"),
        (["resnet5"], "there is no model 'resnet5'\nhint: did you mean resnet50"),
        (["vgg-18"], "there is no model 'vgg-18'\nhint: did you mean vgg1"),
        (["zzzzqqqq"], "there is no model 'zzzzqqqq'\nhint: known are tiny, mlp"),
        (["mlp", "--devices", "0"], "--devices 0 is not allowed\nhint: numbers of devices are 1 or more"),
        (["mlp", "--devices", "-1"], "--devices -1: '-1' is not a number"),
        (["mlp", "--devices", "two"], "--devices two: 'two' is not a number"),
        (["mlp", "--devices", "4"], "4 devices asked for, but there are 2\nhint: raise --cpu-devices"),
        (["mlp", "--cpu-devices", "0"], "--cpu-devices 0\nhint: give a whole number, at least 1"),
        (["mlp", "--batch", "-8"], "a batch of -8 rows is not allowed\nhint: a batch has at least 1 row"),
        (["mlp", "--global-batch", "0"], "a global batch of 0 rows"),
        (
            ["mlp", "--batch", "8", "--global-batch", "8"],
            "a batch of 8 rows per device and a global batch of 8\nhint: give one",
        ),
        (
            ["mlp", "--global-batch", "9", "--against", "native"],
            "a global batch of 9 rows does not divide by 2 devices",
        ),
        (["mlp", "--rounds", "0"], "--rounds 0\nhint: give a whole number, at least 1"),
        (["mlp", "--steps", "-3"], "--steps -3"),
        (["mlp", "--timeout", "0"], "--timeout 0 is not allowed\nhint: give seconds above 0"),
        (["mlp", "--precision", "fp8"], "there is no precision 'fp8'\nhint: known are float32, bfloat16, float16."),
        (["mlp", "--against", "horovod"], "there is no rival 'horovod'\nhint: known are keras, native."),
        (["mlp", "--backend", "jaxx"], "there is no backend 'jaxx'\nhint: did you mean jax?"),
        (
            ["mlp", "--variant", "prefetsch=0"],
            "'prefetsch=0' is not a setting of abreast\nhint: settings are batch_norm",
        ),
        (["mlp", "--variant", "prefetch=-1"], "prefetch=-1 is not allowed\nhint: give a whole number, at least 0"),
        (["mlp", "--variant", "batch_norm=both"], "batch_norm=both is not allowed\nhint: give global or local"),
        (
            ["mlp", "--input", "nowhere"],
            "--input nowhere: no folder\nhint: give host, device, a folder that `abreast pack` made",
        ),
        (["mlp", "--input", "."], "--input .: a folder without a manifest.json"),
        (["mlp", "--input", "nomodule:make"], "there is no module 'nomodule', which should return a source"),
        (
            ["nomodule:make"],
            "there is no module 'nomodule', which should return a model\nhint: run the command where nomodule.py is",
        ),
        (["train.py:make"], "'train.py:make' names a file\nhint: write train:make"),
        (["my model:x"], "'my model:x' does not name a model\nhint: write module:function"),
        (
            ["mlp", "--precision", "float16", "--against", "native"],
            "the native loops do not scale losses, as float16 needs",
        ),
        (["mlp", "--input", "a:b", "--against", "native"], "the native loops take synthetic input only, not a:b"),
        (["mlp", "--input-shape", "32,-1"], "--input-shape 32,-1 is no shape\nhint: write the sizes of one row"),
        (["mlp", "--output", "nofolder/out.jsonl"], "cannot write to nofolder/out.jsonl: there is no folder"),
        (["--report", "bench.txt"], "--report bench.txt: it is a file\nhint: give a folder"),
        (["--report", "bench.txt/out"], "--report bench.txt/out: {tmp}/bench.txt is a file"),
        (["--report", "out"], "there are no measurements in bench.jsonl\nhint: measure first"),
        (["--report", "out", "-o", "benhc.jsonl"], "there are no measurements in benhc.jsonl\nhint: measure first"),
        (["mlp", "--png"], "--png draws the figures of a report\nhint: give --report FOLDER too"),
        (["mlp", "--predicted", "none.jsonl"], "there is no file none.jsonl of predictions"),
    ],
)
def test_an_invalid_request_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], said: str
) -> None:
    devices = [] if "--cpu-devices" in arguments or not arguments else ["--cpu-devices", "2"]
    assert f"abreast: error: {said.replace('{tmp}', str(tmp_path))}" in refused(capsys, *arguments, *devices)


def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of another user, or on a disk that is mounted read-only."""
    (tmp_path / "theirs").mkdir()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "theirs" not in str(path) and allowed(path, mode))
    said = refused(capsys, "mlp", "--cpu-devices", "2", "--report", "theirs/out")
    assert f"--report theirs/out: no permission in {tmp_path}/theirs\nhint: give a folder that you may write to" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[", "cases.json is not JSON"),
        ("{}", "cases.json is not a list of cases"),
        ("[]", "cases.json is not a list of cases"),
        ('[{"modell": "mlp"}]', "cases.json, case 1: 'modell' is not a field of a case\nhint: did you mean model?"),
        ('[{"batch": 8}]', "cases.json, case 1 names no model"),
        (
            '[{"model": "mlp"}, {"model": "mlp", "batch": "many"}]',
            "case 2: batch is 'many'\nhint: give a whole number of rows",
        ),
        ('[{"model": "mlp", "devices": 2}]', "case 1: devices is 2\nhint: give a list of whole numbers"),
        ('[{"model": "mlp", "devices": [true]}]', "case 1: devices is [True]"),
        ('[{"model": "mlp", "batch": -4}]', "a batch of -4 rows"),
        ('[{"model": "resnet51"}]', "there is no model 'resnet51'"),
    ],
)
def test_a_file_of_cases_is_checked_before_anything_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "cases.json").write_text(content)
    assert said in refused(capsys, "--cases", "cases.json", "--cpu-devices", "2")


def test_no_file_of_cases_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot read cases.json: No such file" in refused(capsys, "--cases", "cases.json", "--cpu-devices", "2")
