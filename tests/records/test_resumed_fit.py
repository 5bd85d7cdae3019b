"""A `fit` on records that resumes with `BackupAndRestore` takes the batches that an undisturbed one takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from abreast.records import pack
from tests.harness.client import NUM_DEVICES, Worker, WorkerLost, Workers
from tests.records.pieces import photo

STOPS: list[list[tuple[int, int]]] = [
    [(1, 0), (2, 0)],
    [(1, 1), (2, 0), (2, 0)],
    [(0, 4), (3, 0)],
]


def body(name: str) -> Any:
    """Of `resume_bodies.py`, which pytest itself must not import: Keras would come with it."""
    return SimpleNamespace(__module__="tests.records.resume_bodies", __name__=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Five batches of five rows, the last one of two."""
    folder = tmp_path_factory.mktemp("resume") / "out"
    pack([{"image": photo(30 + i, 40, seed=i), "label": np.float32(i % 5)} for i in range(22)], folder)
    return str(folder)


def _said(epoch: int, of_records: int) -> str:
    keras = f"fit begins with epoch {epoch} (Keras prints Epoch {epoch + 1})"
    return f"abreast: {keras}, ImageRecords with epoch {of_records}, counted from 0\n"


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for one, other in zip(found["weights"], expected["weights"], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("devices", [0, 2])
@pytest.mark.in_turn
def test_a_fit_resumes_with_the_batches_that_it_would_have_taken(
    workers: Workers, folder: str, tmp_path: Path, devices: int
) -> None:
    def trained(**settings: Any) -> dict[str, Any]:
        found: dict[str, Any] = workers.abreast.run(
            body("trained"), folder=folder, devices=devices, saved=str(tmp_path / "backup"), **settings
        )
        assert not (tmp_path / "backup").exists() and found["warnings"] == []
        return found

    expected = trained()
    assert expected["runs"][0]["begun"] == [(0, 0, 0), (1, 1, 0), (2, 2, 0)]

    by_epoch = trained(stops=[(1, 2)])
    assert_same(by_epoch, expected)
    assert by_epoch["runs"][1]["begun"] == [(1, 1, 0), (2, 2, 0)]
    for name, values in by_epoch["runs"][1]["history"].items():
        assert values == expected["runs"][0]["history"][name][1:]

    # A backup after every second step.
    by_step = trained(stops=[(1, 3), (2, 1)], save_freq=2)
    assert_same(by_step, expected)
    assert [run["begun"][0] for run in by_step["runs"]] == [(0, 0, 0), (1, 1, 3), (2, 2, 2)]


@pytest.mark.parametrize("devices", [0, 2])
@pytest.mark.in_turn
def test_a_killed_fit_resumes_in_another_process(
    workers: Workers, another: Worker, folder: str, tmp_path: Path, devices: int
) -> None:
    arguments: dict[str, Any] = {"folder": folder, "devices": devices}
    expected = workers.abreast.run(body("trained"), saved=str(tmp_path / "other"), **arguments)
    with pytest.raises(WorkerLost, match="exit code -9"):
        another.run(body("killed"), saved=str(tmp_path / "backup"), at=(1, 2), save_freq="epoch", **arguments)
    assert_same(another.run(body("trained"), saved=str(tmp_path / "backup"), **arguments), expected)


@pytest.mark.in_turn(1)
def test_resumed_reads_equal_undisturbed_ones(workers: Workers, folder: str, tmp_path: Path) -> None:
    """For steps of each number, backups of each frequency, and stops in each place; without a network."""
    many = [(steps, save_freq) for steps in (None, 1, 2, 3, 5) for save_freq in ("epoch", 1, 2, 3)]
    cases: list[dict[str, Any]] = [
        {"stops": STOPS[number % len(STOPS)], "save_freq": save_freq, "steps_per_epoch": steps}
        for number, (steps, save_freq) in enumerate(many)
    ]
    undisturbed: list[dict[str, Any]] = [
        {"stops": [], "save_freq": "epoch", "steps_per_epoch": steps} for steps in (None, 1, 2, 3, 5)
    ]
    found = workers.abreast.run(
        body("read_many"), folder=folder, saved=str(tmp_path / "backup"), cases=cases + undisturbed
    )
    expected = dict(zip((None, 1, 2, 3, 5), found[len(cases) :], strict=True))
    for case, resumed in zip(cases, found, strict=False):
        assert resumed == expected[case["steps_per_epoch"]], case


@pytest.mark.in_turn
def test_a_fit_that_is_looked_up_before_its_records_follows_too(workers: Workers, folder: str, tmp_path: Path) -> None:
    """`model.fit(abreast.ImageRecords(...))`, where Python evaluates `model.fit` first."""
    cases: list[dict[str, Any]] = [
        {"stops": STOPS[1], "save_freq": save_freq, "looked_up_early": True} for save_freq in ("epoch", 1)
    ]
    undisturbed: list[dict[str, Any]] = [{"stops": [], "save_freq": "epoch"}]
    arguments: dict[str, Any] = {"folder": folder, "saved": str(tmp_path / "backup"), "cases": cases + undisturbed}
    *found, expected = workers.abreast.run(body("read_many"), **arguments)
    assert found == [expected, expected]


@pytest.mark.in_turn(1)
def test_a_backup_of_keras_alone_names_the_step(workers: Workers, folder: str, tmp_path: Path) -> None:
    """Its file has no note of ours."""
    arguments: dict[str, Any] = {"folder": folder, "devices": 0, "epochs": 1, "save_freq": 2, "keep_notes": False}
    found = workers.abreast.run(body("trained"), saved=str(tmp_path / "backup"), stops=[(0, 2)], **arguments)
    assert found["runs"][1]["begun"] == [(0, 0, 2)]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("frequencies", "at", "begun", "said"),
    [
        (["epoch", 2], (1, 2), (1, 1, 0), "whether the first step of epoch 1 is done, so that it is done again"),
        (
            [2, "epoch"],
            (0, 2),
            (0, 0, 2),
            "fit begins with epoch 0 (Keras prints Epoch 1), ImageRecords with epoch 0, batch 2 of",
        ),
    ],
)
def test_a_backup_of_keras_alone_may_have_another_frequency(
    workers: Workers, folder: str, tmp_path: Path, frequencies: list[Any], at: Any, begun: Any, said: str
) -> None:
    arguments: dict[str, Any] = {"folder": folder, "devices": 0, "epochs": 2, "keep_notes": False}
    found = workers.abreast.run(
        body("trained"), saved=str(tmp_path / "backup"), stops=[at], frequencies=frequencies, **arguments
    )
    assert found["runs"][1]["begun"][0] == begun and said in found["said"]


def test_an_exception_in_a_fit_that_is_looked_up_early_leaves_nothing(
    workers: Workers, folder: str, tmp_path: Path
) -> None:
    """At the latest until the next `fit` with its callbacks begins, on whatever data."""
    found = workers.abreast.run(body("left_by_an_exception"), folder=folder, saved=str(tmp_path / "backup"))
    assert found["left"] and found["after"] == (False, ["BackupAndRestore", "Interrupted"])
    whole = workers.abreast.run(
        body("read_many"),
        folder=folder,
        saved=str(tmp_path / "other"),
        cases=[{"stops": [], "save_freq": 2, "epochs": 3}],
    )
    assert found["taken"] == whole[0]


def test_the_next_fit_ends_the_iterations_of_one_that_raised(workers: Workers, folder: str) -> None:
    left, after = workers.abreast.run(body("decoding_threads_after_an_exception"), folder=folder)
    assert left > 0 and after == 0


@pytest.mark.in_turn(1)
def test_a_backup_of_other_batches_begins_its_epoch_again(workers: Workers, folder: str, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"folder": folder, "devices": 0, "epochs": 1, "save_freq": 2}
    settings = [{"seed": 1}, {"seed": 2}]
    found = workers.abreast.run(
        body("trained"), saved=str(tmp_path / "backup"), stops=[(0, 2)], settings=settings, **arguments
    )
    assert found["runs"][1]["begun"] == [(0, 0, 0)]
    assert "seed was 1 and is 2" in found["said"]


def test_a_backup_of_another_decoder_is_reported(workers: Workers, folder: str, tmp_path: Path) -> None:
    """As `restore` does: with `decoder="auto"`, the records take the backup's decoder instead."""
    found = workers.abreast.run(body("warned_of_another_decoder"), folder=folder, saved=str(tmp_path / "backup"))
    assert found == ["the state was made with decoder='gpu', and this loader has 'cpu': pixels differ by rounding"]


@pytest.mark.in_turn
def test_steps_of_several_batches_at_once_are_counted_as_keras_takes_them(workers: Workers, folder: str) -> None:
    if workers.backend == "torch":
        pytest.skip("Keras takes one batch at a time on PyTorch")
    found = workers.abreast.run(body("executions"), folder=folder)
    assert [tuple(each) for each in found] == [(0, 0, 0), (1, 1, 0), (2, 2, 0)]


def begun(found: dict[str, Any]) -> list[list[list[int]]]:
    return [[list(each) for each in fit["begun"]] for fit in found["fits"]]


def test_a_fit_by_hand_begins_with_the_epoch_that_it_names(workers: Workers, folder: str) -> None:
    found = workers.abreast.run(body("epochs_of_fits"), folder=folder, fits=[{"initial_epoch": 3, "epochs": 5}])
    assert begun(found) == [[[3, 3, 0], [4, 4, 0]]]
    assert found["said"] == _said(3, 3)
    whole = workers.abreast.run(body("epochs_of_fits"), folder=folder, fits=[{"epochs": 5}])
    assert found["fits"][0]["taken"] == whole["fits"][0]["taken"][15:] and whole["said"] == ""


def test_a_second_fit_goes_on_with_new_batches(workers: Workers, folder: str) -> None:
    fits = [{"epochs": 2}, {"epochs": 2}, {"initial_epoch": 4, "epochs": 5}, {"initial_epoch": 1, "epochs": 2}]
    found = workers.abreast.run(body("epochs_of_fits"), folder=folder, fits=fits)
    assert begun(found) == [[[0, 0, 0], [1, 1, 0]], [[0, 2, 0], [1, 3, 0]], [[4, 4, 0]], [[1, 1, 0]]]
    assert found["said"] == _said(1, 1)


def test_a_fit_with_few_steps_begins_in_the_middle_of_an_epoch(workers: Workers, folder: str) -> None:
    """Three epochs of two steps are an epoch of the records; the third one has a step."""
    fits = [{"initial_epoch": 4, "epochs": 6, "steps_per_epoch": 2}]
    found = workers.abreast.run(body("epochs_of_fits"), folder=folder, fits=fits)
    assert begun(found)[0][0] == [4, 1, 2]
    whole = workers.abreast.run(body("epochs_of_fits"), folder=folder, fits=[{"epochs": 2}])
    assert found["fits"][0]["taken"] == whole["fits"][0]["taken"][7:]


def test_restored_records_begin_where_they_were_told(workers: Workers, folder: str) -> None:
    """Once: a later `fit` says the epoch again."""
    fits = [{"initial_epoch": 1, "epochs": 2}, {"initial_epoch": 1, "epochs": 2}]
    found = workers.abreast.run(body("epochs_of_fits"), folder=folder, fits=fits, restore=(1, 3))
    assert begun(found) == [[[1, 1, 3]], [[1, 1, 0]]]
    assert len(found["fits"][0]["taken"]) == 2
    other = workers.abreast.run(body("epochs_of_fits"), folder=folder, fits=[{"epochs": 1}], restore=(2, 0))
    assert begun(other) == [[[0, 2, 0]]]
    assert other["said"] == _said(0, 2)


@pytest.mark.parametrize("settings", [{}, {"validation_freq": 2}, {"validation_steps": 2}])
def test_validation_records_follow_too(workers: Workers, folder: str, settings: dict[str, int]) -> None:
    whole, rest = (
        workers.abreast.run(body("validated"), folder=folder, epochs=5, initial_epoch=first, **settings)
        for first in (0, 3)
    )
    assert rest and rest == whole[-len(rest) :]


@pytest.fixture
def another(workers: Workers) -> Iterator[Worker]:
    """A process of its own with that backend."""
    worker = Worker(workers.backend, NUM_DEVICES)
    yield worker
    worker.close()
