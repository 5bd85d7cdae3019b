"""`examples/coming_from`: each script before and after it uses abreast, on two simulated devices.

The scripts before run with plain Keras, except those for Horovod and Keras 2, which cannot be installed beside Keras 3.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.harness.client import ROOT
from tests.harness.differences import largest_difference
from tests.harness.script import run_script

SCRIPTS = ROOT / "examples" / "coming_from"
ORIGINS = {
    "keras_distribution": "jax",
    "mirrored_strategy": "tensorflow",
    "horovod": "tensorflow",
    "multi_gpu_model": "tensorflow",
    "ddp": "torch",
}
# A row more than a multiple of the batch and of the devices.
EVEN, ODD = 96, 97

# Two devices for `MirroredStrategy`, as on a machine with two GPUs.
_TWO_DEVICES = """
import runpy, sys
import tensorflow as tf
cpu, = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
plain = tf.distribute.MirroredStrategy
tf.distribute.MirroredStrategy = lambda: plain(["CPU:0", "CPU:1"])
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(backend: str, command: list[str], output: Path, **environment: str) -> Any:
    """The weights that a script wrote."""
    run_script(backend, command, timeout_seconds=240, **environment)
    with np.load(output) as weights:
        return [weights[name] for name in weights]


def before(origin: str, rows: int, output: Path) -> Any:
    script = [str(SCRIPTS / f"{origin}_before.py"), str(output), str(rows)]
    if origin == "mirrored_strategy":
        return run("tensorflow", ["-c", _TWO_DEVICES, *script], output)
    if origin == "ddp":
        return run("torch", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *script], output)
    return run("jax", script, output, XLA_FLAGS="--xla_force_host_platform_device_count=2", PJRT_NPROC="6")


def after(origin: str, rows: int, output: Path, devices: int = 2) -> Any:
    script = [str(SCRIPTS / f"{origin}_after.py"), str(output), str(rows)]
    under = ["-m", "abreast", "run", "--cpu-devices", str(devices)] if devices > 1 else []
    return run(ORIGINS[origin], [*under, *script], output)


def before_under_abreast(origin: str, rows: int, output: Path) -> Any:
    script = [str(SCRIPTS / f"{origin}_before.py"), str(output), str(rows)]
    return run(ORIGINS[origin], ["-m", "abreast", "run", "--cpu-devices", "2", *script], output)


def of(backend: str, *origins: str) -> list[str]:
    return [origin for origin in origins if ORIGINS[origin] == backend]


@pytest.mark.in_turn
def test_the_script_after_learns_what_the_script_before_learned(backend: str, tmp_path: Path) -> None:
    """Where no last batch is smaller, and no layer relates rows."""
    for origin in of(backend, "keras_distribution", "mirrored_strategy", "ddp"):
        expected, found = before(origin, EVEN, tmp_path / "before.npz"), after(origin, EVEN, tmp_path / "after.npz")
        assert largest_difference(expected, found) < 1e-5, origin


@pytest.mark.full
@pytest.mark.parametrize("origin", ORIGINS)
def test_the_script_after_learns_on_two_devices_what_it_learns_on_one(origin: str, tmp_path: Path) -> None:
    expected, found = (after(origin, ODD, tmp_path / f"{devices}.npz", devices) for devices in (1, 2))
    assert largest_difference(expected, found) < 1e-5


@pytest.mark.full
@pytest.mark.parametrize("origin", ["keras_distribution", "mirrored_strategy"])
def test_the_script_before_is_taken_over(origin: str, tmp_path: Path) -> None:
    expected, found = after(origin, ODD, tmp_path / "1.npz", 1), before_under_abreast(origin, ODD, tmp_path / "2.npz")
    assert largest_difference(expected, found) < 1e-5


@pytest.mark.full
@pytest.mark.torch
def test_a_script_that_makes_a_process_group_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the script makes a process group"):
        before_under_abreast("ddp", ODD, tmp_path / "before.npz")


@pytest.mark.full
@pytest.mark.tensorflow
def test_a_mirrored_strategy_does_not_weight_a_small_last_batch_by_rows(tmp_path: Path) -> None:
    exact = after("mirrored_strategy", ODD, tmp_path / "after.npz", 1)
    found = before("mirrored_strategy", ODD, tmp_path / "before.npz")
    assert largest_difference(exact, found) > 1e-3


@pytest.mark.full
@pytest.mark.torch
def test_ddp_trains_on_a_row_twice_where_rows_do_not_divide(tmp_path: Path) -> None:
    exact, found = after("ddp", ODD, tmp_path / "after.npz", 1), before("ddp", ODD, tmp_path / "before.npz")
    assert largest_difference(exact, found) > 1e-3


@pytest.mark.full
@pytest.mark.jax
def test_keras_distribution_ends_at_a_batch_that_does_not_divide(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"IndivisibleError|divisible"):
        before("keras_distribution", ODD, tmp_path / "before.npz")


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_each_script_compiles_and_those_after_name_no_other_tool(path: Path) -> None:
    text = path.read_text()
    compile(text, str(path), "exec")
    assert path.stem.endswith("_before") or not re.search(
        r"hvd|strategy|distribution\.|multi_gpu|torch", text.partition('"""\n\n')[2]
    )


def test_each_origin_has_two_scripts_and_a_section_in_the_guide() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} == {
        f"{name}_{when}" for name in ORIGINS for when in ("before", "after")
    }
    guide = (ROOT / "docs/guides/coming-from.md").read_text()
    for name in ORIGINS:
        assert f"coming_from/{name}_before.py" in guide and f"coming_from/{name}_after.py" in guide, name
