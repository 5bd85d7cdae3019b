"""A `fit` on records takes the same batches bit for bit: on any devices, with any processes, and after a kill."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from abreast.records import pack
from abreast.records.loading.loader import Loader
from tests.harness.client import NUM_DEVICES, Worker, WorkerLost, Workers
from tests.records.pieces import copied, photo

# Of `exact_bodies.py`, which pytest itself must not import: Keras would come with it.
ROWS, BATCH, SIZE, SEED = 22, 5, 12, 4


def body(name: str) -> Any:
    return SimpleNamespace(__module__="tests.records.exact_bodies", __name__=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exact") / "out"
    samples = [{"image": photo(30 + i, 40, seed=i), "label": np.float32(i % 5)} for i in range(ROWS)]
    pack(samples, folder, shard_mb=0.02)
    return folder


def batches(folder: Path, num_epochs: int, batch_size: int = BATCH, seed: int = SEED) -> list[tuple[Any, Any]]:
    with Loader(folder, batch_size, size=SIZE, seed=seed) as data:
        return [batch for _ in range(num_epochs) for batch in copied(data)]


def digests(folder: Path, num_epochs: int, seed: int = SEED) -> list[str]:
    """Like `digest` of the bodies."""
    found = []
    for arrays in batches(folder, num_epochs, seed=seed):
        whole = hashlib.sha256()
        for array in arrays:
            whole.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
        found.append(whole.hexdigest())
    return found


def assert_fed(seen: list[str], expected: list[str]) -> None:
    """Just these batches; Keras may have looked at the first one before, to build the model."""
    looked_at = seen[: len(seen) - len(expected)]
    assert looked_at in ([], expected[:1])
    assert seen[len(looked_at) :] == expected


@pytest.fixture(scope="module")
def with_threads(folder: Path, workers: Workers) -> dict[int, Any]:
    """The results of a fit on records that threads decode, by the number of devices."""
    settings: dict[str, Any] = {"folder": str(folder), "batch_size": BATCH, "num_workers": 0}
    return {devices: workers.abreast.run(body("fed_by_a_fit"), devices=devices, **settings) for devices in (1, 2, 4)}


@pytest.mark.in_turn
def test_a_fit_takes_the_same_batches_on_any_devices(folder: Path, with_threads: dict[int, Any]) -> None:
    for found in with_threads.values():
        assert_fed(found["seen"], digests(folder, 2))


@pytest.mark.parametrize("devices", [1, 2, 4])
@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.in_turn
def test_a_fit_takes_the_same_batches_of_any_processes(
    folder: Path, workers: Workers, with_threads: dict[int, Any], devices: int, num_workers: int
) -> None:
    """So it makes the same weights, bit for bit; its processes end with the loader."""
    settings: dict[str, Any] = {"folder": str(folder), "batch_size": BATCH, "num_workers": num_workers}
    found = workers.abreast.run(body("fed_by_a_fit"), devices=devices, **settings)
    assert_fed(found["seen"], digests(folder, 2))
    for one, other in zip(found["weights"], with_threads[devices]["weights"], strict=True):
        np.testing.assert_array_equal(one, other)
    assert (found["working"], found["left"]) == (num_workers, 0)


@pytest.mark.in_turn
def test_another_seed_is_noticed(folder: Path, with_threads: dict[int, Any]) -> None:
    """The negative control, as is another order of the epochs."""
    right = digests(folder, 2)
    for wrong in (digests(folder, 2, seed=SEED + 1), right[5:] + right[:5]):
        with pytest.raises(AssertionError):
            assert_fed(with_threads[2]["seen"], wrong)


@pytest.fixture
def another(workers: Workers) -> Iterator[Worker]:
    """A process of its own with that backend."""
    worker = Worker(workers.backend, NUM_DEVICES)
    yield worker
    left = worker.close()
    assert not left, f"left behind: {left}"


def full(*case: int) -> Any:
    return pytest.param(*case, marks=pytest.mark.full)


@pytest.mark.parametrize(
    ("devices", "num_workers", "epoch", "batch"),
    [(2, 0, 1, 2), full(4, 3, 0, 0), full(1, 1, 1, 3), full(2, 3, 2, 3), full(4, 0, 1, 0)],
)
@pytest.mark.in_turn
def test_a_killed_fit_goes_on_in_another_process_bit_for_bit(
    folder: Path,
    workers: Workers,
    another: Worker,
    tmp_path: Path,
    devices: int,
    num_workers: int,
    epoch: int,
    batch: int,
) -> None:
    """Its weights, optimizer and the loader's place are saved after a step; the results equal those without an interruption."""
    settings: dict[str, Any] = {"folder": str(folder), "devices": devices, "batch_size": BATCH}
    expected = workers.abreast.run(body("without_interruption"), **settings)
    settings |= {"saved": str(tmp_path), "num_workers": num_workers}
    with pytest.raises(WorkerLost, match="exit code -9"):
        another.run(body("killed_in_a_fit"), epoch=epoch, batch=batch, **settings)
    assert {path.name for path in tmp_path.iterdir()} == {"model.keras", "state.json"}
    found = another.run(body("gone_on_with"), **settings)
    assert_fed(found["seen"], digests(folder, 3)[5 * epoch + batch + 1 :])
    assert found["place"] == (3, 0)
    for one, other in zip(found["weights"], expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("devices", [0, 1, 2])
@pytest.mark.in_turn
def test_epochs_of_a_single_batch_follow_one_another(folder: Path, workers: Workers, devices: int, built: bool) -> None:
    """Keras may look at the first batch to build a model, and with it has used up no epoch."""
    every = batches(folder, 5, ROWS)
    settings: dict[str, Any] = {"folder": str(folder), "rows": ROWS, "epochs": (3, 2)}
    found = workers.abreast.run(body("trained_on_whole_epochs"), devices=devices, built=built, **settings)
    expected = workers.plain.run(body("trained_on_batches"), batches=every, built=built)
    assert found["places"] == [(3, 0), (5, 0)]
    for one, other in zip(found["weights"], expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6)
