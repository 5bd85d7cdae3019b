"""The scripts of the gallery train on two devices as they stand, and learn something."""

from __future__ import annotations

import re

import pytest

from tests.harness.client import ROOT
from tests.harness.installed import keras_is_older_than
from tests.harness.script import run_script

GALLERY = ROOT / "examples" / "gallery"
# By script: arguments of a small run, and what its last number is at least. By chance: 0.1, 0.33, 0.02, 0.1.
SMALL = {
    "cifar_resnet": (("--made-up", "512", "--epochs", "2", "--depth", "8"), 0.15),
    "finetune_keras_hub": (("--preset", "none"), 0.5),
    "text_transformer": (("--epochs", "1", "--rows", "512"), 0.15),
    "two_tower": (("--epochs", "2"), 0.6),
}


def run(name: str, backend: str, under: tuple[str, ...]) -> str:
    if name == "finetune_keras_hub" and keras_is_older_than("3.15"):
        pytest.skip("KerasHub needs Keras 3.15")
    command = ["-m", "abreast", *under, str(GALLERY / f"{name}.py"), *SMALL[name][0]]
    return run_script(backend, command, timeout_seconds=280)


def test_every_script_of_the_gallery_is_tested_and_described() -> None:
    page = (ROOT / "docs/guides/examples.md").read_text()
    assert set(SMALL) == {path.stem for path in GALLERY.glob("*.py")} == set(re.findall(r"gallery/(\w+)\.py", page))


@pytest.mark.in_turn
@pytest.mark.parametrize("name", SMALL)
def test_a_script_of_the_gallery_learns_on_two_devices(backend: str, name: str) -> None:
    found = re.findall(r"\b\d\.\d{4}\b", run(name, backend, ("run", "--cpu-devices", "2")).splitlines()[-1])
    assert float(found[-1]) > SMALL[name][1]


@pytest.mark.full
@pytest.mark.parametrize("name", SMALL)
def test_a_script_of_the_gallery_is_equal_on_two_devices(backend: str, name: str) -> None:
    """Two draw random numbers, which only JAX draws as one device does."""
    if name == "cifar_resnet" and backend != "jax":
        pytest.skip("draws random numbers for each replica, and says so")
    run(name, backend, ("check", "--cpu-devices", "2"))
