"""On GPUs, the sides of `abreast check` and `abreast torture` run with deterministic kernels; on CPUs nothing changes."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from abreast import deterministic
from abreast.checking import order, process, trials
from abreast.checking.compare import Difference
from abreast.checking.log import Event
from abreast.checking.process import SideRun
from abreast.checking.reasons import Evidence, reasons
from abreast.checking.side import SideSpec
from abreast.errors import LaunchError
from abreast.run import RunOptions
from abreast.torture import campaign, report
from abreast.torture.campaign import Request
from abreast.torture.faults import Facts
from abreast.torture.side import StartSpec
from tests.fake_gpus import pynvml
from tests.harness.client import ROOT
from tests.harness.folder import Folder

NAMES = ("ABREAST_DETERMINISTIC_KERNELS", "CUBLAS_WORKSPACE_CONFIG", "TF_DETERMINISTIC_OPS", "XLA_FLAGS")
CHOSEN = ("1", ":4096:8", "1", "--xla_gpu_deterministic_ops=true")
FAKE_GPUS = str(ROOT / "tests" / "fake_gpus")
SCRIPT = """
import os
import keras
import numpy as np

if keras.backend.backend() == "torch":
    import torch

    print("mode", torch.get_deterministic_debug_mode(), torch.backends.cudnn.benchmark)
print("environment", *(os.environ.get(name) for name in NAMES))
x = np.random.rand(8, 3)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=4, verbose=0)
"""
# For this script, the first CPU is a device with deterministic kernels.
PLANTED = """
from abreast import deterministic

deterministic.are_used = lambda backend, devices: (backend, tuple(devices)) == ("BACKEND", ("cpu:0",))
"""
IN_WORKERS = """
import os
import keras
import numpy as np
import torch

class Layer(keras.layers.Layer):
    def call(self, x):
        open(f"{os.getpid()}.mode", "w").write(f"{torch.get_deterministic_debug_mode()}")
        return 2 * x

x = np.random.rand(8, 3)
model = keras.Sequential([keras.Input((3,)), Layer(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
for each in os.listdir():
    if each.endswith(".mode"):
        os.remove(each)
model.fit(x, x[:, :1], batch_size=4, verbose=0)
"""


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs, and a user who has set nothing."""
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    for name in (*NAMES, "CUDA_VISIBLE_DEVICES", "ABREAST_CPU_DEVICES"):
        monkeypatch.delenv(name, raising=False)


def chosen(options: RunOptions) -> tuple[str | None, ...]:
    found = process.environment(options)
    return tuple(found.get(name) for name in NAMES)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("devices", ["auto", 1, "2", "gpu", "gpu:0,gpu:1", "0,1"])
def test_a_side_on_gpus_has_deterministic_kernels(devices: Any) -> None:
    assert chosen(RunOptions(devices=devices)) == CHOSEN


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("options", [RunOptions(cpu_devices=2), RunOptions("cpu"), RunOptions("cpu:0,cpu:1")])
def test_a_side_on_cpus_of_a_machine_with_gpus_is_as_before(options: RunOptions) -> None:
    assert chosen(options) == (None,) * 4


@pytest.mark.usefixtures("gpus")
def test_a_side_without_gpus_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert chosen(RunOptions()) == (None,) * 4


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--xla_dump_to=/x", "--xla_dump_to=/x --xla_gpu_deterministic_ops=true"),
        ("--xla_gpu_deterministic_ops=false", "--xla_gpu_deterministic_ops=false"),
        ("flags.txt", "flags.txt"),
    ],
)
def test_settings_of_the_user_stay(flags: str, expected: str) -> None:
    """XLA reads a value without dashes as the name of a file."""
    own = {"TF_DETERMINISTIC_OPS": "0", "CUBLAS_WORKSPACE_CONFIG": ":16:8", "XLA_FLAGS": flags}
    assert deterministic.environment(own) == own | {"ABREAST_DETERMINISTIC_KERNELS": "1", "XLA_FLAGS": expected}


@pytest.mark.in_turn
def test_a_check_on_gpus_says_that_it_uses_deterministic_kernels(folder: Folder, backend: str) -> None:
    """The driver sees two GPUs here, and the framework takes the CPU: it is asked what it runs on."""
    folder.write("train.py", f"NAMES = {NAMES}\n{SCRIPT}")
    paths = f"{FAKE_GPUS}:{ROOT / 'src'}"
    result = folder.abreast(
        "check", "--json", "--backend", backend, "train.py", PYTHONPATH=paths, CUDA_VISIBLE_DEVICES="0,1"
    )
    assert result.code == 0, result.err
    assert json.loads(result.out)["deterministic_kernels"] is False
    assert result.err.count(f"abreast: {deterministic.SAID}") == 1
    assert result.err.count(f"environment {' '.join(CHOSEN)}") == 2
    assert result.err.count("mode 1 False") == (2 if backend == "torch" else 0)


@pytest.mark.parametrize(
    ("backend", "name", "value", "used"),
    [
        ("jax", "XLA_FLAGS", "--xla_dump_to=/x --xla_gpu_deterministic_ops=true", True),
        ("jax", "XLA_FLAGS", "--xla_gpu_deterministic_ops", True),
        ("jax", "XLA_FLAGS", "--xla_gpu_deterministic_ops=false", False),
        ("jax", "XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_gpu_deterministic_ops=false", False),
        ("jax", "XLA_FLAGS", "flags.txt", False),
        ("jax", "TF_DETERMINISTIC_OPS", "1", False),
        ("tensorflow", "TF_DETERMINISTIC_OPS", "1", True),
        ("tensorflow", "TF_DETERMINISTIC_OPS", "True", True),
        ("tensorflow", "TF_DETERMINISTIC_OPS", "0", False),
        ("torch", "ABREAST_DETERMINISTIC_KERNELS", "1", True),
        ("torch", "TF_DETERMINISTIC_OPS", "1", False),
    ],
)
def test_kernels_are_used_if_the_variable_of_the_backend_says_so_on_a_gpu(
    backend: str, name: str, value: str, used: bool
) -> None:
    assert deterministic.are_used(backend, ["gpu:0", "gpu:1"], {name: value}) is used
    assert deterministic.are_used(backend, ["cpu:0", "cpu:1"], {name: value}) is False
    assert deterministic.are_used(backend, ["gpu:0"], {}) is False


@pytest.mark.in_turn
@pytest.mark.tensorflow
@pytest.mark.parametrize("planted", [PLANTED, ""])
def test_a_plain_side_that_fails_knows_its_devices(folder: Folder, planted: str) -> None:
    folder.write("train.py", planted.replace("BACKEND", "tensorflow") + "import keras\nraise ValueError('planted')\n")
    result = folder.abreast("check", "--backend", "tensorflow", "train.py", TF_DETERMINISTIC_OPS="1")
    assert result.code == 2, result.err
    assert "plain Keras on one device: ValueError: planted" in result.err
    assert ("TF_DETERMINISTIC_OPS=0" in result.err) == bool(planted)


def failed(message: str, facts: dict[str, Any], *, on_gpus: bool = True) -> str:
    error = {"kind": "RuntimeError", "message": message, "refused": False}
    return str(order._plain_failed(SideRun(1, [], facts, error), on_gpus))


@pytest.mark.parametrize(
    ("facts", "hint"),
    [
        ({"backend": "tensorflow", "deterministic_kernels": True}, "TF_DETERMINISTIC_OPS=0"),
        ({"backend": "jax", "deterministic_kernels": True}, "XLA_FLAGS=--xla_gpu_deterministic_ops=false"),
        ({"backend": "torch", "deterministic_kernels": True}, None),
        ({"backend": "tensorflow", "deterministic_kernels": False}, None),
    ],
)
def test_the_hint_of_a_failed_plain_side_names_the_kernels_that_may_refuse(facts: Any, hint: str | None) -> None:
    said = failed("planted", facts)
    assert "make the script work without abreast first" in said
    assert ("--cpu-devices 2" in said) == (hint is not None)
    assert hint is None or hint in said


def test_a_plain_side_that_fails_before_it_imports_keras_is_told_by_its_message() -> None:
    refused = "When determinism is enabled, random ops must have a seed specified."
    assert "TF_DETERMINISTIC_OPS=0" in failed(refused, {})
    assert "TF_DETERMINISTIC_OPS=0" not in failed(refused, {}, on_gpus=False)
    assert "TF_DETERMINISTIC_OPS=0" not in failed("planted", {})


@pytest.mark.parametrize(("plain", "placed"), [(True, True), (True, False), (False, True)])
def test_a_verdict_has_deterministic_kernels_if_both_sides_had(plain: bool, placed: bool) -> None:
    event = Event("step", "fit", 1, None, None, ())
    sides = [SideRun(0, [event], {"deterministic_kernels": each}, None) for each in (plain, placed)]
    verdict = order.compare_runs("train.py", sides[0], sides[1], lambda _: sides[0])
    assert verdict.deterministic_kernels is (plain and placed)


@pytest.mark.in_turn
@pytest.mark.torch
def test_workers_of_pytorch_use_deterministic_kernels(folder: Folder) -> None:
    folder.write("train.py", IN_WORKERS)
    result = folder.abreast(
        "run", "--backend", "torch", "--cpu-devices", "2", "train.py", ABREAST_DETERMINISTIC_KERNELS="1"
    )
    assert result.code == 0, result.err
    assert [path.read_text() for path in folder.path.glob("*.mode")] == ["1", "1"]


def no_repeat(*devices: str) -> str:
    run = SideRun(0, [], {"backend": "jax", "devices": devices, "models": {}}, None)
    (found,) = reasons(Evidence(Difference("values", "fit of model", "step", 3), run, run, repeats=False))
    return f"{found.what}\n{found.hint}"


def test_a_script_that_does_not_repeat_on_a_gpu_may_have_seeds() -> None:
    assert "seed every generator" in no_repeat("gpu:0") and "kernels without a deterministic form" in no_repeat("gpu:0")
    assert "seed every generator" in no_repeat("cpu:0") and "kernels" not in no_repeat("cpu:0")


def request_on(options: RunOptions) -> Request:
    spec = StartSpec("train.py", (), False, options, "")
    return Request(spec, (options,), ("kill",), 1, 1, None)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(("options", "on_gpu"), [(RunOptions(), True), (RunOptions(cpu_devices=1), False)])
def test_torture_names_the_kernels_on_gpus_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: RunOptions, on_gpu: bool
) -> None:
    monkeypatch.setattr(campaign._Undisturbed, "plain", lambda *_: [])
    monkeypatch.setattr(campaign._Undisturbed, "measured", lambda _: (Facts(1, 1, 1, 1, 1), []))
    monkeypatch.setattr(campaign, "_unequal", lambda *_: "fit 1 is not equal")
    with pytest.raises(LaunchError) as error:
        campaign.torture(request_on(options), tmp_path, lambda _: None)
    assert "keras.utils.set_random_seed(1)" in str(error.value)
    assert ("kernels without a deterministic form" in str(error.value)) == on_gpu


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("used", [True, False])
def test_torture_reports_the_kernels_of_its_runs_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    monkeypatch.setattr(campaign._Undisturbed, "plain", lambda *_: [])
    monkeypatch.setattr(campaign._Undisturbed, "measured", lambda _: (Facts(1, 1, 1, 1, 1, used), []))
    request = dataclasses.replace(request_on(RunOptions()), rounds=0)
    found = campaign.torture(request, tmp_path, lambda _: None)
    assert report.as_data(found)["deterministic_kernels"] is used


@pytest.mark.in_turn
@pytest.mark.torch
@pytest.mark.parametrize("planted", [PLANTED, ""])
def test_a_measured_start_notes_the_kernels_of_its_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(planted.replace("BACKEND", "torch") + SCRIPT.replace("NAMES", "()"))
    monkeypatch.setenv("ABREAST_DETERMINISTIC_KERNELS", "1")
    options = RunOptions(backend="torch", cpu_devices=1)
    request = Request(StartSpec(str(script), (), False, options, ""), (options,), ("kill",), 1, 0, None)
    facts, _ = campaign._Undisturbed(request, tmp_path).measured()
    assert facts.deterministic_kernels is bool(planted)


@pytest.mark.usefixtures("gpus")
def test_trials_on_gpus_say_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise LaunchError("planted")

    monkeypatch.setattr(trials, "check_script", refused)
    said: list[str] = []
    side = SideSpec("", (), False, RunOptions(), True, 2, "")
    two = RunOptions(devices="2")
    trials.run_trials(side, [("jax", two), ("torch", two)], said.append)
    assert said.count(deterministic.SAID) == 1
