"""Callbacks in several processes do what they do with plain Keras on one device: some write on rank 0, and all stop together."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import pytest

from abreast.records import pack
from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed
from tests.launched.job import ended, result, start, start_all
from tests.records.pieces import photo

pytestmark = pytest.mark.usefixtures("all_frameworks")  # some need several; and jobs must train with all there

BACKENDS = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("jax", "tensorflow", "torch")]


def outputs_of(script: str, backend: str, folder: Path) -> list[tuple[Any, str, str]]:
    """What one process, and each of two of a job, found, printed and warned. The job has a folder of its own."""
    skip_unless_installed(backend)
    folders = [folder / name for name in ("alone", "job")]
    for each in folders:
        each.mkdir()
    alone = start(script, None, 0, 1, str(folders[0]), backend=backend)
    said = []
    for process in (alone, *start_all(script, 2, str(folders[1]), backend=backend)):
        output, errors = ended(process)
        assert process.returncode == 0, errors
        printed, _, found = output.rpartition("found ")
        said.append((json.loads(found), printed, errors))
    return said


_HEAD = """
import json, os, sys
from contextlib import nullcontext
rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
is_last = rank == size - 1
import abreast
scope = abreast.DataParallel() if size > 1 else nullcontext()
import keras
import numpy as np
from keras import callbacks
folder = sys.argv[1]
opened = set()
def note(event, arguments):
    path = str(arguments[0]) if arguments else ""
    writes = event in ("os.mkdir", "os.rename", "os.remove") or (event == "open" and set(str(arguments[1])) & set("wax+"))
    if writes and path.startswith(folder):
        opened.add(path)
sys.addaudithook(note)
x = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
def made(seed=0):
    keras.utils.set_random_seed(seed)
    with scope:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"])
    return model
def fit(model, *used, data=x, **options):
    options = {"batch_size": 20, "shuffle": False, "verbose": 0, **options}
    return model.fit(data, data[:, :1], callbacks=list(used), **options).history
def weights(model):
    return [weight.tolist() for weight in model.get_weights()]
"""

_WRITES = (
    _HEAD
    + """
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray
best = callbacks.ModelCheckpoint(f"{folder}/best.keras", monitor="val_loss", save_best_only=True, verbose=1)
board, backup = callbacks.TensorBoard(f"{folder}/board"), callbacks.BackupAndRestore(f"{folder}/backup", delete_checkpoint=False)
used = [best, callbacks.CSVLogger(f"{folder}/log.csv"), board, backup, callbacks.EarlyStopping("loss", 0.03, 1, verbose=1)]
model = made()
model.summary()
found = {"history": fit(model, *used, epochs=9, validation_split=0.3, verbose=2), "weights": weights(model), "best": best.best}
written = sorted(opened)
best_model = keras.models.load_model(f"{folder}/best.keras")  # rank 0 has saved it
found["best weights"] = weights(best_model)
found["csv"] = [[float(each) for each in line.split(",")] for line in open(f"{folder}/log.csv").read().splitlines()[1:]]
events = EventAccumulator(f"{folder}/board/validation").Reload()
found["board"] = [[event.step, float(make_ndarray(event.tensor_proto))] for event in events.Tensors("epoch_loss")]
for _ in range(3):
    model.save(f"{folder}/shared.keras")
    found["shared"] = weights(keras.models.load_model(f"{folder}/shared.keras"))
evaluated = callbacks.TensorBoard(f"{folder}/evaluated")
found["evaluated"] = model.evaluate(x, x[:, :1], batch_size=20, callbacks=[evaluated], verbose=0)
listed = callbacks.CallbackList([callbacks.CSVLogger(f"{folder}/listed.csv")], add_history=True, model=model, epochs=1)
fit_of_list = model.fit(x, x[:, :1], batch_size=20, shuffle=False, verbose=0, callbacks=listed)
assert [type(each).__name__ for each in listed.callbacks] == ["CSVLogger", "History"]
found["listed"] = len(open(f"{folder}/listed.csv").readlines())
class Notes(callbacks.Callback):
    abreast_writes = True
    def on_epoch_end(self, epoch, logs=None):
        open(f"{folder}/notes", "a").write("epoch")
class Saves(callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if rank == 0 and batch == 1:
            self.model.save(f"{folder}/own.keras")
named = callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: open(f"{folder}/named", "a").write("end"))
named.abreast_writes = True
fit(model, Notes(), named, Saves(), epochs=2)
found["notes"] = open(f"{folder}/notes").read() + open(f"{folder}/named").read()
fit(model, callbacks.ModelCheckpoint(f"{folder}/never.keras", "nothing", save_best_only=True, mode="min"))
files = sorted(os.path.relpath(os.path.join(where, name), folder) for where, _, names in os.walk(folder) for name in names)
found["files"] = [name.partition(".tfevents.")[0] for name in files]
print("found", json.dumps([found, written]), flush=True)
"""
)


@pytest.mark.in_turn
@pytest.mark.parametrize("backend", BACKENDS)
def test_callbacks_write_once_what_those_of_one_process_write(backend: str, tmp_path: Path) -> None:
    outputs = outputs_of(_WRITES, backend, tmp_path)
    (alone, _), (first, first_wrote), (second, second_wrote) = [found for found, _, _ in outputs]
    assert first["files"] == second["files"] == alone["files"]
    for name in alone.keys() - {"files", "notes"}:
        for rank in (first, second):
            assert largest_difference(alone[name], rank[name]) < 1e-5, name
    assert first["notes"] == second["notes"] == alone["notes"] == "epochepochendend"
    assert second_wrote == [] and str(tmp_path / "job" / "log.csv") in first_wrote
    (_, printed, warned), (_, nothing, not_warned) = outputs[1:]
    assert printed.count("Total params") == printed.count("Epoch 1/9") == 1 and "early stopping" in printed
    assert nothing == "" and warned.count("Can save best model only with nothing available") == 1
    assert "Can save best model" not in not_warned


_ONE_HAS_THEM = (
    _HEAD
    + """
class Watches(callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.append(float(logs["loss"]))
    def on_test_batch_end(self, batch, logs=None):
        seen.append(float(logs["loss"]))
    def on_predict_batch_end(self, batch, logs=None):
        seen.append(0.0)
seen, found = [], {}
for steps in (None, 2):
    model = made()
    with scope:
        model.compile(keras.optimizers.Adam(0.05, gradient_accumulation_steps=steps), "mse")
    saves = callbacks.ModelCheckpoint(f"{folder}/{steps}.keras", save_freq=1)
    used = [Watches(), saves] if rank == 0 else []
    history = [fit(model, *used, epochs=2, data=x[:58], validation_split=0.3)]
    model.evaluate(x, x[:, :1], batch_size=20, verbose=0, callbacks=used[:1])
    model.predict(x, batch_size=20, verbose=0, callbacks=used[:1])
    found[str(steps)] = [history, weights(model)]
print("found", json.dumps([found, seen]), flush=True)
"""
)


@pytest.mark.in_turn
@pytest.mark.parametrize("backend", BACKENDS)
def test_one_process_may_have_callbacks_that_the_others_lack(backend: str, tmp_path: Path) -> None:
    (alone, seen), (first, first_saw), (second, second_saw) = [
        found for found, _, _ in outputs_of(_ONE_HAS_THEM, backend, tmp_path)
    ]
    assert largest_difference([alone, alone, seen], [first, second, first_saw]) < 1e-5
    assert second_saw == []


_STOPS = (
    _HEAD
    + """
found = {}
def stop(model):
    model.stop_training = True
class AtEnd(callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = is_last and epoch == 1
class AfterBatch(callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if is_last and batch == 1:
            self.model.stop_training = True
class BySomethingElse(callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if is_last and batch == 1:
            stop(self.model)
def stops_last(batch, logs):
    model.stop_training = is_last
class Interrupts(callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyError
wrong = np.where(np.arange(60)[:, None] < 20, x, np.nan).astype("float32")
for name, data, callback in (
    ("at the end of an epoch", x, AtEnd()),
    ("after a batch", x, AfterBatch()),
    ("a function after a batch", x, callbacks.LambdaCallback(on_train_batch_end=stops_last)),
    ("not a number", wrong, callbacks.TerminateOnNaN()),
    ("put off", x, BySomethingElse()),
):
    model = made()
    history = fit(model, callback, data=data, epochs=4)
    found[name] = {"epochs": len(history["loss"]), "steps": int(model.optimizer.iterations), "weights": weights(model)}
# Rank 1 has other weights and does not see the backup, as on another host.
backup = callbacks.BackupAndRestore(f"{folder}/{rank}")
try:
    fit(made(), backup, Interrupts(), epochs=4)
except KeyError:
    pass
model = made(5 + rank)
found["restored"] = {"history": fit(model, backup, epochs=4), "weights": weights(model), "left": len(os.listdir(folder))}
print("found", json.dumps(found), flush=True)
"""
)


@pytest.mark.in_turn
@pytest.mark.parametrize("backend", BACKENDS)
def test_all_processes_stop_and_restore_together(backend: str, tmp_path: Path) -> None:
    (alone, _, _), (first, _, _), (second, _, errors) = outputs_of(_STOPS, backend, tmp_path)
    assert "was set in the middle of an epoch, and takes effect at its end, in all processes" in errors
    assert (first["put off"]["epochs"], first["put off"]["steps"]) == (1, 3)
    assert first["put off"] == second["put off"]
    for name in ("at the end of an epoch", "after a batch", "a function after a batch"):
        for rank in (first, second):
            assert largest_difference(alone[name], rank[name]) < 1e-5, name
    assert (alone["after a batch"]["steps"], alone["at the end of an epoch"]["steps"]) == (2, 6)
    assert [each["not a number"]["steps"] for each in (alone, first, second)] == [2, 2, 2]
    for rank in (first, second):
        assert largest_difference(alone["restored"], rank["restored"]) < 1e-5
    assert len(alone["restored"]["history"]["loss"]) == 2


_RESTARTS = (
    _HEAD
    + """
class Dies(callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2 and sys.argv[2] == "dies":
            os.kill(os.getpid(), 9)
model = made(rank)
backup = callbacks.BackupAndRestore(f"{folder}/backup")
log = callbacks.CSVLogger(f"{folder}/log.csv", append=True)
found = {"history": fit(model, backup, log, Dies(), epochs=4), "weights": weights(model)}
print(json.dumps([found, open(f"{folder}/log.csv").read().count("\\n"), len(os.listdir(folder))]), flush=True)
"""
)


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_job_that_was_killed_goes_on_from_its_backup(backend: str, tmp_path: Path) -> None:
    skip_unless_installed(backend)
    folder = tmp_path / "job"
    folder.mkdir()
    alone = start(_RESTARTS, None, 0, 1, str(tmp_path), "lives", backend=backend)
    for process in start_all(_RESTARTS, 2, str(folder), "dies", backend=backend):
        ended(process)
        assert process.returncode != 0
    undisturbed, lines, _ = result(alone)
    for process in start_all(_RESTARTS, 2, str(folder), "lives", backend=backend):
        found, lines_of_both, left = result(process)
        assert largest_difference(undisturbed["weights"], found["weights"]) < 1e-5
        for name, values in undisturbed["history"].items():
            assert largest_difference(values[2:], found["history"][name]) < 1e-5, name
        assert (lines_of_both, left) == (lines, 1)


# What the callbacks of rank 0 do; the others do not do it.
_FAILS = (
    _HEAD
    + """
import time
class Writes(callbacks.Callback):
    abreast_writes = True
    def on_epoch_end(self, epoch, logs=None):
        getattr(self, sys.argv[2])()
    def on_train_batch_end(self, batch, logs=None):
        if sys.argv[2] == "cannot_write_between_batches":
            self.cannot_write()
    def cannot_write(self):
        os.write(os.open("/dev/full", os.O_WRONLY), b"full")
    def predicts(self):
        self.model.predict(x, verbose=0)
    def sleeps(self):
        time.sleep(12)
print("found", len(fit(made(), Writes(), epochs=1)["loss"]), flush=True)
"""
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("what", "error"),
    [
        pytest.param("cannot_write", "OSError: [Errno 28] No space left on device", marks=pytest.mark.in_turn),
        pytest.param(
            "cannot_write_between_batches", "OSError: [Errno 28] No space left on device", marks=pytest.mark.full
        ),
        pytest.param(
            "predicts",
            "BackendError: Writes acts on rank 0 alone, and calls predict, which all processes must call",
            marks=pytest.mark.full,
        ),
    ],
)
def test_an_error_of_a_callback_on_rank_0_ends_all_and_is_named(
    what: str, error: str, backend: str, tmp_path: Path
) -> None:
    skip_unless_installed(backend)
    first, second = start_all(_FAILS, 2, str(tmp_path), what, backend=backend)
    (_, of_first), (_, of_second) = ended(first), ended(second, 30)
    assert error in of_first
    assert f"rank 0 on host {platform.node()} ended by an error: Writes: {error}" in of_second, of_second
    assert (first.returncode, second.returncode) == (1, 1)


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_slow_callback_on_rank_0_is_waited_for(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_installed(backend)
    monkeypatch.setenv("ABREAST_HANG_SECONDS", "6")
    for process in start_all(_FAILS, 2, str(tmp_path), "sleeps", backend=backend):
        output, errors = ended(process)
        assert (process.returncode, output) == (0, "found 1\n"), errors


_RECORDS = (
    _HEAD
    + """
class Interrupts(callbacks.Callback):
    at = None
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.at:
            raise KeyError
def trained(at=None):
    keras.utils.set_random_seed(rank)
    with scope:
        layers = [keras.layers.Rescaling(1 / 255), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(5)]
        model = keras.Sequential([keras.Input((16, 16, 3)), *layers])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    interrupts, backup = Interrupts(), callbacks.BackupAndRestore(f"{folder}/{rank}", save_freq=2)
    interrupts.at = at
    with abreast.ImageRecords(sys.argv[2], batch_size=6, size=16, seed=3) as records:
        try:
            model.fit(records, epochs=3, verbose=0, callbacks=[backup, interrupts])
        except KeyError:
            pass
    return weights(model)
if size > 1:
    trained((1, 2))
print(json.dumps(trained()), flush=True)
"""
)


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
def test_image_records_go_on_in_the_middle_of_an_epoch_in_all_processes(backend: str, tmp_path: Path) -> None:
    """Only rank 0 sees the backup, which says how many batches of the epoch are done."""
    skip_unless_installed(backend)
    records = tmp_path / "records"
    pack([{"image": photo(30 + i, 40, seed=i), "label": i % 5} for i in range(22)], records)
    alone = start(_RECORDS, None, 0, 1, str(tmp_path), str(records), backend=backend)
    job = start_all(_RECORDS, 2, str(tmp_path / "job"), str(records), backend=backend)
    undisturbed = result(alone)
    for rank in job:
        assert largest_difference(undisturbed, result(rank)) < 1e-5
