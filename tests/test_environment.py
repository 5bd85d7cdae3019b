"""`abreast env`: the facts of an installation and a machine, without a framework."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from abreast import cli
from abreast.backend import builds, registry
from abreast.env_command import report
from abreast.environment_facts import environment_facts
from tests.harness.client import ROOT

NO_GPU = {"torch/version.py": "cuda: Optional[str] = None\nhip: Optional[str] = None\n"}
TORCH_CUDA = {"torch/version.py": "__version__ = '2.13.0'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n"}
TORCH_ROCM = {"torch/version.py": "cuda: Optional[str] = None\nhip: Optional[str] = '6.3.42131'\n"}
BUILD_INFO = "build_info = collections.OrderedDict([{}])\n"
TENSORFLOW_CPU = {
    "tensorflow/python/platform/build_info.py": BUILD_INFO.format("('is_cuda_build', False), ('is_rocm_build', False)")
}
TENSORFLOW_CUDA = {
    "tensorflow/python/platform/build_info.py": BUILD_INFO.format(
        "('cuda_version', '12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True), ('is_rocm_build', False)"
    )
}


def package(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
        (folder / Path(name).parts[0] / "__init__.py").write_text("raise ImportError('nobody imports this')\n")


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        ("torch", NO_GPU, None),
        ("torch", TORCH_CUDA, "CUDA 12.8"),
        ("torch", TORCH_ROCM, "ROCm 6.3.42131"),
        ("tensorflow", TENSORFLOW_CPU, None),
        ("tensorflow", TENSORFLOW_CUDA, "CUDA 12.5.1"),
    ],
)
def test_the_build_of_a_framework_is_read_from_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Any, files: dict[str, str], expected: str | None
) -> None:
    package(tmp_path, files)
    monkeypatch.syspath_prepend(tmp_path)
    assert builds.gpu_build(name) == expected


def test_jax_was_built_for_the_gpu_of_its_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = tmp_path / "jax_cuda13_plugin-0.10.2.dist-info"
    plugin.mkdir()
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: jax-cuda13-plugin\nVersion: 0.10.2\n")
    before = builds.gpu_build("jax")
    monkeypatch.syspath_prepend(tmp_path)
    assert (before, builds.gpu_build("jax")) == (None, "CUDA 13")


def test_the_report_has_a_line_for_every_fact(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["env"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    frameworks = ["JAX", "TensorFlow", "PyTorch"]
    machine = ["driver", "devices", "launcher", "variables", "cores", "memory", "/dev/shm"]
    assert names == ["abreast", "python", "system", *frameworks, "packages", "keras.json", "backend", *machine]


def test_json_has_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["env", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == environment_facts({}).keys()


def test_variables_of_frameworks_and_launchers_are_listed_and_secrets_are_hidden() -> None:
    environ = {"XLA_FLAGS": "--one\n--two", "NVIDIA_API_KEY": "abc", "RANK": "0", "WORLD_SIZE": "1", "EDITOR": "vi"}
    facts = environment_facts(environ)
    assert facts["variables"] == {
        "NVIDIA_API_KEY": "(hidden)",
        "RANK": "0",
        "WORLD_SIZE": "1",
        "XLA_FLAGS": "--one\n--two",
    }
    assert facts["launcher"]["source"] == "torchrun"
    text = report(facts)
    assert "XLA_FLAGS=--one\\n--two\n" in text
    assert "abc" not in text


def test_every_variable_of_a_launcher_is_listed() -> None:
    texts = [file.read_text() for file in (ROOT / "src/abreast/launchers").glob("*.py")]
    names = {name for text in texts for name in re.findall(r'"([A-Z][A-Z0-9]*_[A-Za-z_0-9]+)"', text)}
    assert {"SLURM_PROCID", "PET_NNODES", "SM_HOSTS", "OMPI_MCA_orte_hnp_uri"} < names
    assert environment_facts(dict.fromkeys(names, "0"))["variables"].keys() == names


def test_a_wrong_setting_is_reported_instead_of_raised(tmp_path: Path) -> None:
    (tmp_path / "keras.json").write_text("{")
    facts = environment_facts({"RANK": "7", "ABREAST_CPU_DEVICES": "two", "KERAS_HOME": str(tmp_path)}, tmp_path)
    text = " ".join(report(facts).split())
    assert "devices ABREAST_CPU_DEVICES='two' is not a number of devices" in text
    assert "launcher RANK='7' is set, but WORLD_SIZE is not" in text
    assert f"keras.json {tmp_path}/keras.json cannot be read: " in text
    assert text.endswith("/dev/shm none")


def test_a_driver_is_reported_with_its_hidden_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    answers: dict[str, Any] = {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlSystemGetDriverVersion": "580.65.06",
        "nvmlSystemGetCudaDriverVersion_v2": 13000,
        "nvmlDeviceGetCount": 4,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, lambda answer=answer: answer)
    facts = environment_facts({"ABREAST_CPU_DEVICES": "1"})
    assert facts["driver"] == {"version": "580.65.06", "cuda": "13.0", "cards": 4}
    assert "driver      580.65.06, CUDA up to 13.0, 4 cards\n" in report(facts)


def test_the_backend_that_keras_would_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setattr(registry, "_is_installed", lambda name: name == "jax")
    assert environment_facts({})["keras_backend"] == {"name": "jax", "why": None}
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert environment_facts({})["keras_backend"] == "torch is not installed"


@pytest.mark.alone
def test_the_report_is_quick_and_imports_no_framework() -> None:
    code = """
        import sys, time
        from abreast.cli import main
        main(["env"])
        print([name for name in ("jax", "tensorflow", "torch", "keras", "numpy") if name in sys.modules], file=sys.stderr)
    """
    code = "\n".join(line.strip() for line in code.splitlines())
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True
        )
        seconds.append(time.perf_counter() - start)
        assert done.stderr == "[]\n"
    assert min(seconds) < 1.0  # measured 0.12
