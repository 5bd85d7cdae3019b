"""GPUs that a framework cannot use are reported with the command that mends it, and never with simulated devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from abreast.backend import unused_gpus as module
from abreast.backend.unused_gpus import unused_gpus
from abreast.device_list import Device
from abreast.installing import install_command
from tests.harness.client import ROOT, TITLES

GPUS = tuple(Device(f"gpu:{index}", "gpu", index, "A100") for index in range(2))


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two cards and no CUDA."""
    monkeypatch.setattr(module, "list_nvidia_devices", lambda: GPUS)
    monkeypatch.setattr(module, "_can_load", lambda library: False)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)


def build(monkeypatch: pytest.MonkeyPatch, kind: str | None, package: str) -> None:
    monkeypatch.setattr(module, "gpu_build", lambda name: kind)
    monkeypatch.setattr(module, "distribution_of", lambda name: (package, "1.0"))


@pytest.mark.parametrize(
    ("name", "package", "command"),
    [
        ("jax", "jax", install_command("jax-cuda")),
        ("tensorflow", "tensorflow", install_command("tensorflow-cuda")),
        ("tensorflow", "tensorflow-cpu", f"pip uninstall --yes tensorflow-cpu && {install_command('tensorflow-cuda')}"),
        ("torch", "torch", f"pip uninstall --yes torch && {install_command('torch')}"),
    ],
)
@pytest.mark.usefixtures("gpus")
def test_a_build_without_cuda_is_named_with_the_command_that_mends_it(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str, command: str
) -> None:
    build(monkeypatch, None, package)
    for computes_on_cpu in (True, False):
        found = unused_gpus(name, computes_on_cpu=computes_on_cpu)
        assert found is not None
        assert found.message == f"{TITLES[name]} cannot use 2 GPUs of this machine (A100): its build has no CUDA"
        assert found.hint.startswith(f"{command};")


@pytest.mark.usefixtures("gpus")
def test_a_build_of_tensorflow_without_the_libraries_of_cuda_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    build(monkeypatch, "CUDA 12.5.1", "tensorflow")
    monkeypatch.setattr(module, "package_versions", lambda *names: {})
    found = unused_gpus("tensorflow", computes_on_cpu=False)
    assert found is not None
    assert found.message.endswith(": CUDA's libraries, which its build loads, are not installed")
    monkeypatch.setattr(module, "_can_load", lambda library: library == "libcudnn.so.9")
    assert unused_gpus("tensorflow", computes_on_cpu=False) is None


@pytest.mark.usefixtures("gpus")
def test_a_build_with_cuda_that_finds_no_device_is_named_once_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    build(monkeypatch, "CUDA 13", "jax")
    assert unused_gpus("jax", computes_on_cpu=False) is None
    found = unused_gpus("jax", computes_on_cpu=True)
    assert found is not None
    assert "it is built for CUDA 13 and finds no device; the driver may be older" in found.message


@pytest.mark.usefixtures("gpus")
def test_gpus_that_the_user_hides_from_jax_are_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert unused_gpus("jax", computes_on_cpu=True) is None


def test_without_gpus_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "list_nvidia_devices", tuple)
    assert unused_gpus("torch", computes_on_cpu=True) is None


def python(folder: Path, *arguments: str, cards: bool = True, **environ: str) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own, on a machine with two cards or none, whose frameworks are CPU builds."""
    hidden = ("ABREAST_CPU_DEVICES", "CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS")
    kept: dict[str, Any] = {name: value for name, value in os.environ.items() if name not in hidden}
    paths = [str(ROOT / "src"), *([str(ROOT / "tests" / "fake_gpus")] if cards else [])]
    kept |= {"PYTHONPATH": os.pathsep.join(paths), "KERAS_HOME": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=kept | environ, capture_output=True, text=True, timeout=120)


# Twice "auto", which is reported once, and a request that fails.
PLACE = """
import abreast
for devices in ("auto", "auto", "cpu", 4):
    abreast.DataParallel(devices=devices)
"""


@pytest.mark.in_turn
def test_devices_that_fall_back_to_the_cpu_are_reported_once(tmp_path: Path, backend: str) -> None:
    done = python(tmp_path, "-c", PLACE, KERAS_BACKEND=backend)
    why = f"{TITLES[backend]} cannot use 2 GPUs of this machine (NVIDIA Imaginary 80GB): its build has no CUDA"
    assert done.stderr.count(f"abreast: {why}\nhint: pip ") == 1, done.stderr
    assert f"DeviceError: 4 devices asked for, but there is cpu:0; {why}\nhint: pip " in done.stderr
    assert "simulate" not in done.stderr


@pytest.mark.jax
def test_the_fall_back_without_gpus_is_reported_once(tmp_path: Path) -> None:
    done = python(tmp_path, "-c", PLACE, cards=False, KERAS_BACKEND="jax")
    line = (
        'abreast: devices="auto" found no accelerator: models train on cpu:0 alone\nhint: `abreast run --cpu-devices N`'
    )
    assert done.stderr.count(line) == 1, done.stderr


@pytest.mark.jax
def test_devices_that_the_user_simulates_are_no_fall_back(tmp_path: Path) -> None:
    code = "import abreast; abreast.use_cpu_devices(1); print(abreast.DataParallel().devices)"
    done = python(tmp_path, "-c", code, KERAS_BACKEND="jax")
    assert (done.stdout, "abreast:" in done.stderr) == ("('cpu:0',)\n", False), done.stderr


JOIN = """
from types import SimpleNamespace
from abreast import parallel
from abreast.launchers import World
backend = SimpleNamespace(name="torch", join=lambda world: ("rank:0", "rank:1"), device_names=lambda: ("cpu:0",))
parallel._joined(backend, World({0}, 4, {0}, 2, "host", "torchrun"))
"""


@pytest.mark.in_turn
@pytest.mark.torch
@pytest.mark.parametrize(("rank", "times"), [(0, 1), (1, 0)])
def test_the_first_rank_of_a_host_reports_gpus_that_the_ranks_cannot_use(tmp_path: Path, rank: int, times: int) -> None:
    done = python(tmp_path, "-c", JOIN.format(rank), KERAS_BACKEND="torch")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("abreast: PyTorch cannot use 2 GPUs of this machine") == times


@pytest.mark.jax
def test_abreast_run_reports_gpus_that_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import keras\n")
    done = python(tmp_path, "-m", "abreast", "run", "--devices", "2", "train.py", KERAS_BACKEND="jax")
    message = "JAX cannot use 2 GPUs of this machine (NVIDIA Imaginary 80GB): its build has no CUDA"
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith(
        f"abreast: error: 2 devices asked for, but there is cpu:0; {message}\nhint: {CUDA}; {TABLE}\n"
    )
    assert "simulate" not in done.stderr


CUDA = install_command("jax-cuda")
TABLE = "the README's table of extras names the driver that it needs"


def test_the_list_of_devices_reports_gpus_that_the_framework_cannot_use(tmp_path: Path) -> None:
    done = python(tmp_path, "-m", "abreast", "devices", KERAS_BACKEND="jax")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["NAME", "gpu:0", "gpu:1"]
    message = "JAX cannot use 2 GPUs of this machine (NVIDIA Imaginary 80GB): its build has no CUDA"
    assert done.stderr.startswith(f"abreast: {message}\nhint: {CUDA}; ")


def test_where_there_are_gpus_a_missing_framework_is_installed_for_them(tmp_path: Path) -> None:
    code = "from abreast.backend.registry import no_backend; print(no_backend().hint)"
    for cards, command in ((True, CUDA), (False, install_command("jax"))):
        assert python(tmp_path, "-c", code, cards=cards).stdout == f"{command}\n"


def test_every_extra_for_cuda_is_in_the_package_and_in_the_readme() -> None:
    import tomllib

    from abreast.backend.registry import CUDA_EXTRAS

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    readme = (ROOT / "README.md").read_text()
    for extra in CUDA_EXTRAS.values():
        assert extra in extras
        assert f"`.[{extra}]`" in readme
