"""What `abreast run` says about a run: where it trains, at the first training, or that there was none."""

from __future__ import annotations

import pytest

from abreast.launchers import World
from abreast.run_lines import training_line
from tests.harness.client import TITLES
from tests.harness.folder import Folder

ALONE = World(0, 1, 0, 1, "here", "alone")


@pytest.mark.parametrize(
    ("devices", "rows", "world", "line"),
    [
        (("gpu:0", "gpu:1"), 64, ALONE, "JAX on gpu:0, gpu:1: 64 rows in a step, 32 on each device"),
        (("gpu:0",), 64, ALONE, "JAX on gpu:0: 64 rows in a step"),
        (("cpu:0",), 1, ALONE, "JAX on cpu:0: 1 row in a step"),
        (
            ("gpu:0", "gpu:1", "gpu:2"),
            64,
            ALONE,
            "JAX on gpu:0, gpu:1, gpu:2: 64 rows in a step, 21 or 22 on each device",
        ),
        (
            ("cpu:0", "cpu:1"),
            1,
            ALONE,
            "JAX on cpu:0, cpu:1 (simulated on the CPU): 1 row in a step, 0 or 1 on each device",
        ),
        (("gpu:0", "gpu:1"), None, ALONE, "JAX on gpu:0, gpu:1"),
        (
            ("rank:0", "rank:1", "rank:2", "rank:3"),
            64,
            World(2, 4, 0, 2, "node-b", "torchrun"),
            "JAX on 4 ranks of torchrun, 2 of them on host node-b (this is rank 2): 64 rows in a step, 16 on each rank",
        ),
    ],
)
def test_a_line_names_framework_devices_and_rows(
    devices: tuple[str, ...], rows: int | None, world: World, line: str
) -> None:
    assert training_line("jax", devices, rows, world) == f"training with {line}"


MODEL = """
import keras, numpy as np
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x, y = np.ones((10, 2)), np.ones((10, 1))
"""
FIT = "model.fit(x, y, batch_size=5, epochs=2, verbose=0)\n"


def lines(folder: Folder, text: str, *options: str, backend: str = "jax") -> list[str]:
    """The lines of abreast on stderr for a script on two devices."""
    options = ("--backend", backend, "--cpu-devices", "2", *options)
    result = folder.abreast("run", *options, folder.write("train.py", MODEL + text))
    assert result.code == 0, result.err
    return [line.removeprefix("abreast: ") for line in result.err.splitlines() if line.startswith("abreast: ")]


@pytest.mark.in_turn
def test_the_first_fit_prints_where_it_trains_and_later_ones_print_nothing(folder: Folder, backend: str) -> None:
    where = f"training with {TITLES[backend]} on cpu:0, cpu:1 (simulated on the CPU)"
    assert lines(folder, FIT + FIT, backend=backend) == [f"{where}: 5 rows in a step, 2 or 3 on each device"]


@pytest.mark.in_turn
@pytest.mark.jax
def test_quiet_prints_neither_line(folder: Folder) -> None:
    assert lines(folder, FIT, "--quiet") == []
    assert lines(folder, "", "--quiet") == []


@pytest.mark.in_turn
@pytest.mark.jax
@pytest.mark.parametrize("end", ["", "raise SystemExit(0)\n"])
def test_a_script_that_trains_nothing_is_told_so_at_its_end(folder: Folder, end: str) -> None:
    told = "train.py trained nothing through fit; a training loop of its own runs on one device"
    assert lines(folder, end) == [told]


@pytest.mark.in_turn
@pytest.mark.jax
@pytest.mark.parametrize("call", ["evaluate(x, y, verbose=0)", "predict(x, verbose=0)", "predict_on_batch(x)"])
def test_a_script_that_only_evaluates_or_predicts_is_told_where(folder: Folder, call: str) -> None:
    told = (
        "train.py trained nothing through fit; it evaluated or predicted on cpu:0, cpu:1 (simulated on the CPU); "
        "a training loop of its own would run on one device"
    )
    assert lines(folder, f"model.{call}\n") == [told]


@pytest.mark.in_turn
@pytest.mark.jax
def test_training_by_batches_is_reported_too(folder: Folder) -> None:
    where = "training with JAX on cpu:0, cpu:1 (simulated on the CPU)"
    assert lines(folder, "model.train_on_batch(x, y)\n") == [where]


def test_a_script_without_keras_that_exits_well_is_told_so(folder: Folder) -> None:
    result = folder.abreast("run", folder.write("end.py", "import sys\nsys.exit()\n"))
    assert (result.code, result.err) == (0, "abreast: end.py imported no Keras, so nothing was placed on devices\n")


@pytest.mark.parametrize(("local_rank", "lines"), [("0", 1), ("1", 0)])
def test_the_first_rank_of_a_host_says_so(folder: Folder, local_rank: str, lines: int) -> None:
    world = {"RANK": local_rank, "WORLD_SIZE": "2", "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": "2"}
    result = folder.abreast("run", folder.write("end.py", ""), **world)
    assert (result.code, result.err.count("imported no Keras")) == (0, lines)


def test_variables_that_contradict_one_another_do_not_fail_a_script_without_keras(folder: Folder) -> None:
    result = folder.abreast("run", folder.write("end.py", ""), RANK="1")
    assert (result.code, result.err.count("imported no Keras")) == (0, 1)
