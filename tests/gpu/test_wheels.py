"""Collected packages replace missing ones and those that are too old, and no others."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks.gpu import wheels


def wheel(folder: Path, name: str, version: str) -> Path:
    """A package of one module that holds its version."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", f"version = {version!r}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return path


def test_missing_packages_are_installed_without_network(tmp_path: Path) -> None:
    folder, target = tmp_path / "wheels", tmp_path / "target"
    folder.mkdir()
    needed = wheel(folder, "abreast_planted", "1.0")
    wheel(folder, "numpy", "999.0")
    assert wheels.install(folder, target) == [needed.name]
    code = "import abreast_planted; print(abreast_planted.version)"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(target)}, capture_output=True, text=True)
    assert done.stdout == "1.0\n", done.stderr
    assert not (target / "numpy.py").exists()


def test_without_wheels_that_are_needed_nothing_is_installed(tmp_path: Path) -> None:
    assert wheels.install(tmp_path, tmp_path / "target") == []
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("name", "here", "needed"),
    [
        ("keras-3.15.1-py3-none-any.whl", "3.10.0", True),
        ("keras-3.15.1-py3-none-any.whl", "3.15.1", False),
        ("keras-3.9.0-py3-none-any.whl", "3.15.1", False),
        ("nvidia_ml_py-13.0-py3-none-any.whl", "12.5", True),
        ("pillow-12.0-cp312-cp312-manylinux_2_28_x86_64.whl", "11.0", False),
        ("pillow-12.0-cp312-cp312-manylinux_2_28_x86_64.whl", None, True),
    ],
)
def test_an_older_package_is_replaced_only_where_abreast_needs_a_newer_one(
    monkeypatch: pytest.MonkeyPatch, name: str, here: str | None, needed: bool
) -> None:
    monkeypatch.setattr(wheels, "version_here", lambda name: here)
    assert wheels.is_needed(Path(name)) == needed


def test_wheels_are_collected_by_name_for_the_other_python(tmp_path: Path) -> None:
    command = wheels.collect_command(tmp_path, "3.12", ["keras", "namex"])
    assert command[-4:] == ["--dest", str(tmp_path), "keras", "namex"]
    assert command[command.index("--python-version") + 1] == "3.12"
    assert {"--no-deps", "--only-binary=:all:", "manylinux_2_28_x86_64"} <= set(command)
