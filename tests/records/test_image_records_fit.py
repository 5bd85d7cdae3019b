"""`ImageRecords` in Keras, on each backend: training on them equals training on the same arrays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from abreast.records import pack
from abreast.records.loading.loader import Loader
from tests.harness.client import RemoteError, Workers
from tests.records.pieces import photo

# Of `fit_bodies.py`, which pytest itself must not import: Keras would come with it.
BATCH, SIZE, SEED = 5, 12, 4


def body(name: str) -> Any:
    return SimpleNamespace(__module__="tests.records.fit_bodies", __name__=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit") / "out"
    samples = [
        {"image": photo(30 + i, 40, seed=i), "label": np.float32(i % 5), "weight": np.float32(i)} for i in range(22)
    ]
    pack(samples, folder, shard_mb=0.02)
    return folder


def epochs(folder: Path, count: int, **settings: Any) -> list[tuple[Any, ...]]:
    """The arrays of some epochs, each put together of its batches."""
    with Loader(folder, BATCH, **{"size": SIZE, "seed": SEED, **settings}) as batches:
        return [tuple(map(np.concatenate, zip(*batches, strict=True))) for _ in range(count)]


def assert_close(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6)  # measured 2e-7; 3e-3 in another order


@pytest.fixture(scope="module")
def expected(folder: Path, workers: Workers) -> dict[str, Any]:
    held_out = epochs(folder, 1, augment=False)[0]
    found: dict[str, Any] = workers.plain.run(body("trained_on_arrays"), epochs=epochs(folder, 2), held_out=held_out)
    return found


@pytest.mark.in_turn
@pytest.mark.parametrize("devices", [0, 1, 2, 4])
def test_records_train_as_their_arrays_do(
    folder: Path, workers: Workers, expected: dict[str, Any], devices: int
) -> None:
    """In plain Keras (0 devices) and in abreast's staged feed; with validation, `predict` and `evaluate`."""
    found = workers.abreast.run(body("trained_on_records"), folder=str(folder), devices=devices)
    assert_close(found["weights"], expected["weights"])
    assert sorted(found["history"]) == sorted(expected["history"])
    assert_close(*([each["history"][name] for name in sorted(each["history"])] for each in (found, expected)))
    assert_close([found["predicted"], found["evaluated"]], [expected["predicted"], expected["evaluated"]])
    assert found["place"] == (2, 0)
    assert [name for name in found["threads"] if name.startswith("abreast-decode")] == []


@pytest.mark.in_turn(1)
def test_the_comparison_notices_another_order(folder: Path, workers: Workers, expected: dict[str, Any]) -> None:
    """The negative control."""
    found = workers.abreast.run(body("trained_on_records"), folder=str(folder), devices=2, seed=SEED + 1)
    assert (
        max(np.abs(one - other).max() for one, other in zip(found["weights"], expected["weights"], strict=True)) > 1e-3
    )


@pytest.mark.in_turn
@pytest.mark.parametrize("devices", [0, 2])
@pytest.mark.parametrize(("epoch", "batch"), [(0, 1), (1, 3)])
def test_a_fit_goes_on_in_the_middle_of_an_epoch(
    folder: Path, workers: Workers, expected: dict[str, Any], devices: int, epoch: int, batch: int
) -> None:
    arguments: dict[str, Any] = {"folder": str(folder), "devices": devices, "epoch": epoch, "batch": batch}
    found = workers.abreast.run(body("stopped_and_restored"), **arguments)
    assert_close(found["weights"], expected["weights"])
    assert [name for name in found["threads"] if name.startswith("abreast-decode")] == []


@pytest.mark.in_turn(1)
def test_several_targets_go_to_their_outputs(folder: Path, workers: Workers) -> None:
    plain, ours = (
        workers.abreast.run(body("trained_on_several_columns"), folder=str(folder), devices=devices)
        for devices in (0, 2)
    )
    assert {"label_loss", "weight_loss"} <= set(plain["names"]) and plain["names"] == ours["names"]
    assert_close(ours["weights"], plain["weights"])


def test_a_loop_gets_the_batches_of_the_loader(folder: Path, workers: Workers) -> None:
    """NumPy arrays, on each backend."""
    found = workers.abreast.run(body("batches_of_a_loop"), folder=str(folder))
    for one, other in zip(zip(*found, strict=True), epochs(folder, 1)[0], strict=True):
        np.testing.assert_array_equal(np.concatenate(one), other)


def test_tensors_keep_the_memory_that_they_were_made_from(folder: Path, workers: Workers) -> None:
    """Memory of a batch is used again only when no framework reads it any more."""
    found = workers.abreast.run(body("tensors_of_batches"), folder=str(folder))
    with Loader(folder, BATCH, size=SIZE, seed=SEED) as batches:
        expected = [images.copy() for images, _ in batches] * 2
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_fit_uses_memory_again_and_copies_nothing(folder: Path, workers: Workers) -> None:
    found = workers.abreast.run(body("memory_of_a_fit"), folder=str(folder), devices=2)
    assert found["batches"] >= 40 and found["copied"] == 0
    assert found["places"] <= 16  # measured 6 to 11


@pytest.mark.parametrize("argument", ["y", "sample_weight", "class_weight"])
def test_arguments_that_fit_would_ignore_are_refused(folder: Path, workers: Workers, argument: str) -> None:
    given: Any = {0: 2.0} if argument == "class_weight" else np.zeros(22)
    with pytest.raises(RemoteError) as caught:
        workers.abreast.run(body("fitted_with"), folder=str(folder), **{argument: given})
    assert "DataError" in caught.value.kinds
    assert (
        f"{argument} can only be used with arrays" in caught.value.message
        and "targets=..., weights=..." in caught.value.message
    )


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_devices_get_the_batches_bit_for_bit(folder: Path, workers: Workers, devices: int) -> None:
    found = workers.abreast.run(body("pixels_on"), folder=str(folder), devices=devices)
    np.testing.assert_array_equal(found, epochs(folder, 1)[0][0])


def many(folder: Path, count: int) -> str:
    images = [photo(96, 128, seed=i) for i in range(16)]
    pack([{"image": images[i % 16], "label": np.float32(i % 5)} for i in range(count)], folder)
    return str(folder)


@pytest.mark.alone
@pytest.mark.in_turn
@pytest.mark.parametrize("devices", [pytest.param(1, marks=pytest.mark.full), 4])
def test_devices_do_not_wait_for_a_reader_that_is_faster(workers: Workers, tmp_path: Path, devices: int) -> None:
    """The first step of an epoch waits 10 ms for its batch to be decoded; epochs of a second make that small."""
    folder = many(tmp_path / "out", 3200 if workers.backend == "jax" else 960)
    found = workers.abreast.run(body("waits_of_a_fit"), folder=folder, devices=devices, slow_seconds=0.0)
    assert found["reader"] > 1.2 * found["model"], found
    # An epoch's first batch is waited for: the source is opened then, as by plain Keras. Measured 0.039 of a short fit.
    assert found["wait"] - found["wait_of_first"] < 0.02, found
    assert found["wait_of_first"] < 0.1, found


@pytest.mark.alone
@pytest.mark.in_turn
def test_devices_wait_for_a_reader_that_is_slower(workers: Workers, tmp_path: Path) -> None:
    """The negative control: 10 ms for each image."""
    folder = many(tmp_path / "out", 512)
    found = workers.abreast.run(body("waits_of_a_fit"), folder=folder, devices=1, slow_seconds=0.01)
    assert found["reader"] < found["model"] and found["wait"] > 0.2, found


@pytest.mark.full
@pytest.mark.timeout(900)
def test_records_teach_what_files_read_by_pillow_teach(workers: Workers, tmp_path: Path) -> None:
    """The mean over two seeds."""
    pytest.importorskip("skimage")
    arguments: dict[str, Any] = {"folder": str(tmp_path), "seeds": (0, 1)}
    found = workers.abreast.run(body("accuracies"), timeout_seconds=600, **arguments)
    assert min(map(min, found.values())) > 0.7, found  # by chance 0.11
    assert abs(np.mean(found["records"]) - np.mean(found["pillow"])) < 0.06, found
