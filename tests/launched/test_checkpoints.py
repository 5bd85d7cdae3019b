"""A job of several processes that was killed goes on from its checkpoint, with as many processes or with one."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from abreast.checkpoints.folder import checkpoint_names
from abreast.checkpoints.write import PART
from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed
from tests.launched.job import ended, free_port, result, start, start_all

BACKENDS = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("jax", "tensorflow", "torch")]

_SCRIPT = """
import json, os, signal, sys
folder, dies_at, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
import abreast
scope = abreast.DataParallel()
import keras
import numpy as np
class Dies(keras.callbacks.Callback):
    steps = 0
    def on_train_batch_begin(self, batch, logs=None):
        Dies.steps += 1
        if Dies.steps == dies_at and how and os.environ.get("RANK", "0") == "0":
            os.kill(os.getpid(), how)
from abreast.checkpoints import parts
parts._LEAST_ELEMENTS = 20  # so that both processes write a part
if dies_at and not how and os.environ["RANK"] == "1":
    written, plain = [], parts.write_tensors
    def dies_within_a_write(folder, *rest):
        written.append(folder)
        if len(written) == dies_at:
            (folder / "tensors-00001-of-00002.safetensors").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(folder, *rest)
    parts.write_tensors = dies_within_a_write
keras.utils.set_random_seed(1)
with scope:
    layers = [keras.layers.Dense(6, "relu"), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(keras.optimizers.Adam(0.05, gradient_accumulation_steps=2), "mse", metrics=["mae"])
x = np.random.default_rng(0).normal(size=(100, 4)).astype("float32")
callbacks = [Dies(), keras.callbacks.ReduceLROnPlateau("val_loss", patience=0, min_delta=100.0)]
if folder != "none":
    callbacks.append(abreast.Checkpoint(folder, every=2))
fit = {"batch_size": 16, "epochs": 3, "validation_split": 0.2, "verbose": 0}
history = model.fit(x, x[:, :1], callbacks=callbacks, **fit).history
found = {"history": history, "weights": [each.tolist() for each in model.get_weights()]}
found["predict"] = model.predict(x, verbose=0).tolist()
print(json.dumps(found), flush=True)
"""


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.full)], ids=["killed", "asked to end"]
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_job_goes_on_from_its_checkpoint(backend: str, tmp_path: Path, how: signal.Signals) -> None:
    skip_unless_installed(backend)
    alone = result(start(_SCRIPT, None, 0, 1, "none", "0", "0", backend=backend))
    folder = str(tmp_path / "checkpoints")
    first = start_all(_SCRIPT, 2, folder, "9", str(int(how)), backend=backend)
    errors = [ended(process)[1] for process in first]
    codes = [process.returncode for process in first]
    assert codes == [75, 75] if how == signal.SIGTERM else codes[0] == -9 and codes[1] != 0, errors
    assert num_parts(folder) == [2] * 3
    again = start_all(_SCRIPT, 2, folder, "0", "0", backend=backend)
    for found in map(result, again):
        assert_alike(found, alone)


_TWO_FITS = """
import os, signal
import keras
import numpy as np
x = np.arange(32, dtype="float32").reshape(8, 4)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=4, verbose=0)
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGTERM)
model.fit(x, x[:, :1], batch_size=4, verbose=0)
"""
_RUNS = "import sys; from abreast.cli import main; sys.exit(main(['run', '--quiet', '--checkpoint', *sys.argv[1:]]))"


@pytest.mark.in_turn
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_signal_to_one_process_between_two_fits_ends_all_with_75(backend: str, tmp_path: Path) -> None:
    skip_unless_installed(backend)
    script = tmp_path / "train.py"
    script.write_text(_TWO_FITS)
    processes = start_all(_RUNS, 2, str(tmp_path / "checkpoints"), str(script), backend=backend)
    first, second = [ended(process)[1] for process in processes]
    assert [process.returncode for process in processes] == [75, 75], (first, second)
    assert "rank 1 on host " in first and " was asked to end by SIGTERM; this process of the job ends too" in first
    assert "Traceback" not in first + second


@pytest.mark.in_turn
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_process_that_dies_while_it_writes_leaves_the_older_checkpoint(backend: str, tmp_path: Path) -> None:
    skip_unless_installed(backend)
    alone = result(start(_SCRIPT, None, 0, 1, "none", "0", "0", backend=backend))
    first = start_all(_SCRIPT, 2, str(tmp_path), "3", "0", backend=backend)
    errors = [ended(process)[1] for process in first]
    assert first[1].returncode == -9 and first[0].returncode not in (0, -9), errors
    assert num_parts(tmp_path) == [2, 2]
    for found in map(result, start_all(_SCRIPT, 2, str(tmp_path), "0", "0", backend=backend)):
        assert_alike(found, alone)
    assert not [each for each in tmp_path.iterdir() if each.name.endswith(PART)]


@pytest.mark.in_turn
@pytest.mark.jax
def test_processes_that_see_other_folders_are_refused(tmp_path: Path) -> None:
    skip_unless_installed("jax")
    script = _SCRIPT.replace(
        "folder, dies_at", "os.environ['OWN'] = sys.argv[1] + os.environ['RANK']\nfolder, dies_at", 1
    )
    script = script.replace("abreast.Checkpoint(folder, ", "abreast.Checkpoint(os.environ['OWN'], ")
    ends = [ended(process) for process in start_all(script, 2, str(tmp_path / "own"), "0", "0")]
    for _, errors in ends:
        assert "rank 1 sees another folder there\nhint: name a folder that all hosts of the job share" in errors


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_job_of_one_process_goes_on_as_two(backend: str, tmp_path: Path) -> None:
    skip_unless_installed(backend)
    alone = result(start(_SCRIPT, None, 0, 1, "none", "0", "0", backend=backend))
    folder = str(tmp_path / "checkpoints")
    ended(start(_SCRIPT, None, free_port(), 1, folder, "8", str(int(signal.SIGKILL)), backend=backend))
    for found in map(result, start_all(_SCRIPT, 2, folder, "0", "0", backend=backend)):
        assert_alike(found, alone)


@pytest.mark.in_turn
@pytest.mark.torch
def test_each_process_goes_on_with_its_own_random_numbers(tmp_path: Path) -> None:
    skip_unless_installed("torch")
    script = _SCRIPT.replace("keras.layers.BatchNormalization()", "keras.layers.Dropout(0.4)")
    expected = [result(each) for each in start_all(script, 2, "none", "0", "0", backend="torch")]
    folder = str(tmp_path / "checkpoints")
    for process in start_all(script, 2, folder, "9", str(int(signal.SIGKILL)), backend="torch"):
        ended(process)
    assert checkpoint_names(folder)
    again = start_all(script, 2, folder, "0", "0", backend="torch")
    assert [result(each) for each in again] == expected


def num_parts(folder: str | Path) -> list[int]:
    """The number of files of tensors of each checkpoint."""
    return [len([*Path(folder, name).glob("*.safetensors")]) for name in checkpoint_names(folder)]


def assert_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert largest_difference(found[name], value) < 1e-5, name
