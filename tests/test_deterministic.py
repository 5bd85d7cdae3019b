"""On GPUs, the sides of `abreast check` and `abreast torture` run with deterministic kernels; on CPUs nothing changes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from abreast import deterministic
from abreast.checking import process, trials
from abreast.checking.compare import Difference
from abreast.checking.process import SideRun
from abreast.checking.reasons import Evidence, reasons
from abreast.checking.side import SideSpec
from abreast.errors import LaunchError
from abreast.run import RunOptions
from abreast.torture import campaign, report
from abreast.torture.campaign import Campaign, Request
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
    """The driver sees two GPUs here, and the framework takes the CPU."""
    folder.write("train.py", f"NAMES = {NAMES}\n{SCRIPT}")
    paths = f"{FAKE_GPUS}:{ROOT / 'src'}"
    result = folder.abreast(
        "check", "--json", "--backend", backend, "train.py", PYTHONPATH=paths, CUDA_VISIBLE_DEVICES="0,1"
    )
    assert result.code == 0, result.err
    assert json.loads(result.out)["deterministic_kernels"] is True
    assert result.err.count(f"abreast: {deterministic.SAID}") == 1
    assert result.err.count(f"environment {' '.join(CHOSEN)}") == 2
    assert result.err.count("mode 1 False") == (2 if backend == "torch" else 0)


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
@pytest.mark.parametrize(("options", "on_gpu"), [(RunOptions(), True), (RunOptions(cpu_devices=1), False)])
def test_torture_reports_its_kernels_as_json(options: RunOptions, on_gpu: bool) -> None:
    assert report.as_data(Campaign(request_on(options)))["deterministic_kernels"] is on_gpu


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
