"""`abreast bench` in real processes on simulated devices: its measurements, Ctrl-C, and continuing after it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import left_behind
from tests.harness.folder import Folder, Result

QUICK = ("--steps", "3", "--rounds", "2", "--warm-up", "2")
PARTS = ("wait", "copy", "compute", "callbacks", "rest")


@pytest.fixture(scope="session")
def measured(backend: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Folder, Result]:
    """A tiny model on one and on two devices, beside both rivals and with another setting; and the report."""
    folder = Folder(tmp_path_factory.mktemp(f"bench-{backend}"))
    sides = ("--against", "keras,native", "--variant", "prefetch=0")
    where = ("--backend", backend, "--cpu-devices", "2", "--batch", "8", *QUICK, *sides)
    return folder, folder.abreast("bench", "tiny", *where, "--report", "out")


def lines_of(folder: Folder) -> list[dict[str, Any]]:
    path = folder.path / "bench.jsonl"
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def sides(backend: str, devices: int) -> set[str]:
    """Keras does not train on several devices on PyTorch."""
    rivals = {"native"} if backend == "torch" and devices > 1 else {"keras", "native"}
    return {"abreast", "abreast prefetch=0", *rivals}


@pytest.mark.in_turn
def test_every_side_is_measured_on_every_number_of_devices(backend: str, measured: tuple[Folder, Result]) -> None:
    folder, result = measured
    found = lines_of(folder)
    for devices in (1, 2):
        assert {line["case"]["side"] for line in found if line["case"]["devices"] == devices} == sides(backend, devices)
    assert (result.code, "failed" in result.err) == (0, False), result.err
    left_out = "abreast: Keras does not train on several devices on torch: it is measured on one\n"
    assert (left_out in result.err) == (backend == "torch")


@pytest.mark.in_turn
def test_a_line_describes_its_measurement_completely(backend: str, measured: tuple[Folder, Result]) -> None:
    folder, _ = measured
    line = next(each for each in lines_of(folder) if each["case"]["side"] == "abreast" and each["case"]["devices"] == 2)
    assert line["case"] == {
        "model": "tiny",
        "backend": backend,
        "devices": 2,
        "rows": 16,
        "rows_per_device": 8.0,
        "scaling": "weak",
        "precision": "float32",
        "input": "host",
        "simulated": True,
        "side": "abreast",
    }
    assert (line["benchmark"], line["unit"]) == ("bench", "seconds per step")
    assert line["num_samples"] == len(line["samples"]) == 2
    assert line["quartiles"][0] <= line["median"] <= line["quartiles"][1]
    assert (line["steps_per_sample"], line["source"]) == (3, "arrays")
    assert line["warm_up"] == "two turns, and the first 2 steps of each turn"
    assert 0 <= line["cores_of_others"] <= line["machine"]["cores"] + 0.1
    assert line["num_parameters"] == 32 * 64 + 64 + 64 * 10 + 10
    assert line["gradient_tensor_bytes"] == [4 * 10, 4 * 640, 4 * 64, 4 * 2048]
    assert line["command"].startswith("abreast bench tiny --backend")
    assert line["machine"]["cores"] >= 1
    assert line["versions"]["keras"]
    assert set(PARTS) <= set(line["step_parts_seconds"])
    assert sum(line["step_parts_seconds"].values()) == pytest.approx(line["median"], rel=1e-3)


@pytest.mark.in_turn
def test_the_table_goes_to_stdout_and_the_rest_to_stderr(backend: str, measured: tuple[Folder, Result]) -> None:
    _, result = measured
    title, where, heads, *rows = _without_notes(result.out)
    assert title == f"tiny on {backend}, float32, 8 rows per device, input host"
    assert where.startswith("devices simulated on ")
    assert heads.split()[:2] == ["side", "devices"]
    assert len(rows) == sum(len(sides(backend, devices)) for devices in (1, 2))
    assert "[1/2] tiny on " in result.err
    assert "[2/2] tiny on " in result.err


@pytest.mark.in_turn
def test_the_report_is_there(measured: tuple[Folder, Result]) -> None:
    folder, _ = measured
    names = {path.name for path in (folder.path / "out").iterdir()}
    assert {"report.html", "table.txt"} < names
    drawn = {name.rpartition("-")[2] for name in names if name.endswith(".svg")}
    # Of a noisy measurement only the parts of a step.
    assert {"step.svg"} <= drawn <= {"step.svg", "up.svg", "efficiency.svg"}


@pytest.mark.in_turn
def test_a_measured_case_is_not_measured_again(backend: str, measured: tuple[Folder, Result]) -> None:
    folder, _ = measured
    before = lines_of(folder)
    command = ("bench", "tiny", "--backend", backend, "--cpu-devices", "2", "--batch", "8", *QUICK)
    result = folder.abreast(*command)
    assert result.code == 0
    assert result.err == "abreast: 2 measurements already in bench.jsonl; --again measures again\n"
    assert len(_without_notes(result.out)) == 5
    assert lines_of(folder) == before


@pytest.mark.in_turn
@pytest.mark.jax
def test_ctrl_c_keeps_finished_cases_and_the_same_command_continues(folder: Folder) -> None:
    command = [sys.executable, "-m", "abreast", "bench", "tiny", "convnet", "--backend", "jax", "--cpu-devices", "1"]
    command += ["--batch", "8", "--rounds", "2", "--steps", "2"]
    process = subprocess.Popen(
        command, cwd=folder.path, env=folder.environ(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not lines_of(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)  # the second case's process runs
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.endswith(
        "abreast: stopped; the measurements so far are in bench.jsonl\nhint: the same command continues after them\n"
    )
    assert left_behind(process.pid, seconds=10) == []
    assert [line["case"]["model"] for line in lines_of(folder)] == ["tiny"]

    result = folder.python(*command[1:])
    assert result.code == 0, result.err
    assert result.err.startswith("abreast: 1 measurement already in bench.jsonl")
    assert [line["case"]["model"] for line in lines_of(folder)] == ["tiny", "convnet"]


@pytest.mark.jax
def test_ctrl_c_before_the_first_measurement_is_reported(folder: Folder) -> None:
    command = [sys.executable, "-m", "abreast", "bench", "tiny", "--backend", "jax", "--cpu-devices", "1"]
    process = subprocess.Popen(
        command, cwd=folder.path, env=folder.environ(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 30
    while not _cells(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, lines_of(folder)) == (130, [])
    assert said == "abreast: stopped; nothing was measured yet\nhint: the same command continues after them\n"


@pytest.mark.jax
def test_a_killed_bench_leaves_no_process(folder: Folder) -> None:
    command = [sys.executable, "-m", "abreast", "bench", "tiny", "--backend", "jax", "--cpu-devices", "1"]
    process = subprocess.Popen(command, cwd=folder.path, env=folder.environ(), start_new_session=True)
    deadline = time.monotonic() + 30
    while not (cells := _cells(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert cells
    process.kill()
    process.wait(10)
    while any(Path(f"/proc/{cell}").exists() for cell in cells) and time.monotonic() < deadline + 30:
        time.sleep(0.05)
    assert [cell for cell in cells if Path(f"/proc/{cell}").exists()] == []


def _without_notes(output: str) -> list[str]:
    """The lines of a report without those about noise, which tests with few short rounds may have."""
    return [each for each in output.splitlines() if not each.startswith(("too noisy: ", "hint: "))]


def _cells(process: int) -> list[int]:
    """The processes that another one started."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in text.split()]


@pytest.mark.in_turn
@pytest.mark.jax
def test_a_users_model_source_and_on_device_noise_are_measured(folder: Folder) -> None:
    folder.write(
        "mine.py",
        """
        import keras, numpy as np

        def model():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
            model.compile("sgd", "mse")
            return model

        def source(batch_size):
            x = np.ones((5 * batch_size, 4), "float32")
            return x, x[:, :3]
        """,
    )
    where = ("--backend", "jax", "--cpu-devices", "1", "--batch", "8", *QUICK)
    results = [
        folder.abreast("bench", "mine:model", "--input", source, *where) for source in ("host", "device", "mine:source")
    ]
    assert [result.code for result in results] == [0, 0, 0], [result.err for result in results]
    assert [(line["case"]["input"], line["source"]) for line in lines_of(folder)] == [
        ("host", "arrays"),
        ("device", "arrays"),
        ("mine:source", "source"),
    ]
    assert [line["num_parameters"] for line in lines_of(folder)] == [15, 15 + 4, 15]


@pytest.mark.in_turn
@pytest.mark.jax
def test_a_record_set_feeds_a_model_with_its_classes(folder: Folder) -> None:
    """Eight images in batches of four: an epoch ends within every turn."""
    pytest.importorskip("simplejpeg")
    from tests.records.pieces import class_folder

    class_folder(folder.path / "photos")
    assert folder.abreast("pack", "photos", "photos.pack", "--threads", "1").code == 0
    where = ("--input", "photos.pack", "--input-shape", "16,16,3", "--batch", "2", "--devices", "2")
    result = folder.abreast("bench", "convnet", *where, "--backend", "jax", "--cpu-devices", "2", *QUICK)
    assert result.code == 0, result.err
    (line,) = lines_of(folder)
    assert (line["source"], line["case"]["input"]) == ("generator", "photos.pack")
    assert line["gradient_tensor_bytes"][0] == 4 * 2  # two classes


@pytest.mark.in_turn
@pytest.mark.jax
def test_a_batch_larger_than_the_record_set_is_named(folder: Folder) -> None:
    pytest.importorskip("simplejpeg")
    from tests.records.pieces import class_folder

    class_folder(folder.path / "photos")
    assert folder.abreast("pack", "photos", "photos.pack", "--threads", "1").code == 0
    where = ("--input", "photos.pack", "--input-shape", "16,16,3", "--batch", "9", "--cpu-devices", "1")
    result = folder.abreast("bench", "convnet", *where, "--backend", "jax", *QUICK)
    assert result.code == 1
    assert (
        "batch_size=9 is more than the 8 samples, so that all are dropped\nhint: give a smaller batch_size"
        in result.err
    )
    assert (result.out, lines_of(folder)) == ("", [])


PARSES = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--rows", default=4, REQUIRED)
print(parser.parse_args())
"""


@pytest.mark.jax
@pytest.mark.parametrize(
    ("required", "message"),
    [
        ("", "train has no function 'nofunc' that could return a model\nhint: train has no functions\n"),
        (
            "required=True",
            "train ended the process when it was imported (exit code 2)\nhint: let it parse arguments and",
        ),
    ],
)
def test_a_module_may_parse_arguments_when_it_is_imported(folder: Folder, required: str, message: str) -> None:
    folder.write("train.py", PARSES.replace("REQUIRED", required))
    result = folder.abreast("bench", "train:nofunc", "--backend", "jax", "--cpu-devices", "1", *QUICK)
    assert result.code == 1
    assert message in result.err
    assert "usage" not in result.err


@pytest.mark.in_turn
@pytest.mark.jax
def test_a_failed_case_is_named_and_the_others_continue(folder: Folder) -> None:
    folder.write(
        "mine.py", "import keras\ndef modell():\n    pass\ndef two():\n    raise ValueError('no weights here')"
    )
    cases = [{"model": "mine:model"}, {"model": "mine:modell"}, {"model": "mine:two"}, {"model": "tiny"}]
    folder.write("cases.json", json.dumps(cases))
    result = folder.abreast("bench", "--cases", "cases.json", "--backend", "jax", "--cpu-devices", "1", *QUICK)
    assert result.code == 1
    assert "mine has no function 'model' that could return a model\nhint: did you mean modell?" in result.err
    assert "mine:modell returned a NoneType\nhint: let it take no arguments and return a keras.Model" in result.err
    assert "ValueError: no weights here" in result.err
    assert [line["case"]["model"] for line in lines_of(folder)] == ["tiny"]


@pytest.mark.jax
def test_a_case_that_takes_too_long_is_ended(folder: Folder) -> None:
    folder.write("mine.py", "import time\ndef model():\n    time.sleep(600)")
    result = folder.abreast("bench", "mine:model", "--backend", "jax", "--cpu-devices", "1", "--timeout", "6")
    assert result.code == 1
    assert "no result after 6.00 s\nhint: give more time with --timeout" in result.err
    assert lines_of(folder) == []


@pytest.mark.in_turn
@pytest.mark.jax
def test_other_precisions_and_strong_scaling_are_measured(folder: Folder) -> None:
    command = (
        "bench",
        "tiny",
        "--precision",
        "bfloat16",
        "--global-batch",
        "9",
        "--cpu-devices",
        "2",
        "--backend",
        "jax",
    )
    result = folder.abreast(*command, *QUICK)
    assert result.code == 0, result.err
    assert [(line["case"]["rows"], line["case"]["scaling"]) for line in lines_of(folder)] == [(9, "strong")] * 2
    assert "tiny on jax, bfloat16, 9 rows in all, input host" in result.out
