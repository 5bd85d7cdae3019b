"""The sequence of batches: the same for any threads, processes and restarts, and each sample once in an epoch."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.errors import DataError
from abreast.records import CenterCrop, RandomCrop, pack
from abreast.records.loading.draws import permutation, uniforms
from abreast.records.loading.loader import Loader
from abreast.records.loading.sampling import Sampling
from tests.harness.client import ROOT
from tests.records.pieces import assert_same, copied, photo

NUM_SAMPLES = 23


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JPEGs of several sizes in several shards; one is gray."""
    samples = [
        {
            "image": photo(40 + i, 60 - i, 1 if i == 5 else 3, seed=i),
            "label": i,
            "weight": np.float32(i / 2),
            "pair": np.array([i, -i], np.int16),
            "text": f"Bild {i}",
            "boxes": np.zeros((i % 3, 4), np.float32),
        }
        for i in range(NUM_SAMPLES)
    ]
    folder = tmp_path_factory.mktemp("records") / "out"
    pack(samples, folder, shard_mb=0.02)
    return folder


def loader(folder: Path, **settings: Any) -> Loader:
    return Loader(folder, **{"batch_size": 5, "size": 16, "seed": 3, "num_threads": 2, **settings})


def test_every_epoch_has_each_sample_once_in_another_order(folder: Path) -> None:
    with loader(folder) as batches:
        epochs = [np.concatenate([labels for _, labels in batches]).tolist() for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(NUM_SAMPLES))] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_threads_do_not_change_the_batches(folder: Path) -> None:
    one = loader(folder, num_threads=1)
    expected = copied(one) + copied(one)
    many = loader(folder, num_threads=7)
    assert_same(copied(many) + copied(many), expected)


def test_the_seed_changes_the_order_and_the_crops(folder: Path) -> None:
    assert loader(folder)[0][1].tolist() != loader(folder, seed=4)[0][1].tolist()
    in_order, other_in_order = (loader(folder, seed=seed, shuffle=False)[0] for seed in (3, 4))
    assert in_order[1].tolist() == other_in_order[1].tolist() == [0, 1, 2, 3, 4]
    assert (in_order[0] != other_in_order[0]).any()


def test_a_sample_is_cropped_otherwise_in_each_epoch(folder: Path) -> None:
    batches = loader(folder, shuffle=False)
    first, second = copied(batches), copied(batches)
    assert first and all((images != other).any() for (images, _), (other, _) in zip(first, second, strict=True))


def test_the_centre_is_the_same_in_each_epoch_and_not_shuffled(folder: Path) -> None:
    batches = loader(folder, augment=False)
    first, second = copied(batches), copied(batches)
    assert np.concatenate([labels for _, labels in first]).tolist() == list(range(NUM_SAMPLES))
    assert_same(second, first)


def test_a_batch_by_its_number_is_that_of_the_iteration(folder: Path) -> None:
    batches = loader(folder)
    by_number = [batches[i] for i in range(len(batches))]
    np.testing.assert_array_equal(batches[-1][0], by_number[-1][0])
    assert_same(copied(batches), by_number)
    for i in (5, -6):
        with pytest.raises(IndexError):
            batches[i]


@pytest.mark.parametrize("done", range(6))
def test_the_rest_is_the_same_after_a_restart(folder: Path, done: int) -> None:
    """The state goes through JSON, in the middle of the second epoch, at its begin and at its end."""
    batches = loader(folder)
    list(batches)
    iterator = iter(batches)
    for _ in range(done):
        next(iterator)
    state = json.loads(json.dumps(batches.state()))
    rest = copied(iterator) + copied(batches)
    again = loader(folder, num_threads=1)
    again.restore(state)
    found = copied(again)
    if done < 5:
        found += copied(again)
    assert_same(found, rest)


def test_a_state_can_be_that_of_any_step(folder: Path) -> None:
    batches = loader(folder)
    expected = copied(batches)
    again = loader(folder)
    again.restore(batches.state(epoch=0, batch=3))
    assert_same(copied(again), expected[3:])
    assert batches.state(epoch=0, batch=5) == batches.state(epoch=1, batch=0)


def test_an_old_iterator_does_not_change_the_state(folder: Path) -> None:
    """It has yielded its last batch, and the next is requested only after another epoch."""
    batches = loader(folder)
    expected = [copied(batches) for _ in range(3)]
    batches = loader(folder)
    old = iter(batches)
    for _ in range(len(batches)):
        next(old)
    assert_same(copied(batches), expected[1])
    assert next(old, None) is None
    assert batches.epoch == 2
    assert_same(copied(batches), expected[2])


def test_numbers_of_numpy_are_settings_too(folder: Path) -> None:
    batches = loader(folder, batch_size=np.int64(5), seed=np.uint8(1))
    assert json.loads(json.dumps(batches.state())) == loader(folder, batch_size=5, seed=1).state()


def test_an_epoch_that_was_not_finished_begins_again(folder: Path) -> None:
    batches = loader(folder)
    expected = copied(batches)
    batches.restore(batches.state(0, 0))
    iterator = iter(batches)
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]
    assert_same(copied(batches), expected)


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_shards_put_together_are_the_global_batches(folder: Path, drop_remainder: bool) -> None:
    expected = copied(loader(folder, drop_remainder=drop_remainder))
    shards = [copied(loader(folder, drop_remainder=drop_remainder, shard=i, num_shards=3)) for i in range(3)]
    together = [tuple(map(np.concatenate, zip(*parts, strict=True))) for parts in zip(*shards, strict=True)]
    assert [len(labels) for _, labels in expected] == ([5] * 4 if drop_remainder else [5, 5, 5, 5, 3])
    assert_same(together, expected)


def batch_two(batches: Loader) -> Any:
    return batches[2]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_processes_make_the_same_batch(folder: Path, method: str) -> None:
    """In the middle of an iteration, as the workers of a `PyDataset` would do."""
    batches = loader(folder)
    list(batches)
    expected = batches[2]
    iterator = iter(batches)
    next(iterator)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert_same(pool.map(batch_two, [batches, batches]), [expected, expected])
    assert len(list(iterator)) == 4


def test_a_pickle_is_the_path_and_the_settings(folder: Path) -> None:
    batches = loader(folder, augment=RandomCrop(scale=(0.5, 1)))
    next(iter(batches))
    data = pickle.dumps(batches)
    assert len(data) < 1000
    assert_same([pickle.loads(data)[1]], [batches[1]])


def test_targets_are_the_requested_columns(folder: Path) -> None:
    settings = {"augment": False, "batch_size": 4}
    images = loader(folder, targets=None, **settings)[0]
    assert images.shape == (4, 16, 16, 3) and images.dtype == np.uint8
    _, pairs = loader(folder, targets="pair", **settings)[0]
    assert pairs.tolist() == [[0, 0], [1, -1], [2, -2], [3, -3]] and pairs.dtype == np.int16
    _, several, weights = loader(folder, targets=("label", "pair"), weights="weight", **settings)[1]
    assert several["label"].tolist() == [4, 5, 6, 7] and several["pair"].shape == (4, 2)
    assert weights.tolist() == [2.0, 2.5, 3.0, 3.5]


def test_the_state_of_other_batches_is_refused(folder: Path) -> None:
    state = loader(folder).state()
    for change in ({"seed": 9}, {"batch_size": 6}, {"size": 8}, {"augment": False}, {"drop_remainder": True}):
        with pytest.raises(DataError, match="belongs to other batches") as caught:
            loader(folder, **change).restore(state)
        assert next(iter(change)) in caught.value.message
    for wrong in ({"batch": 6}, {"batch": -1}, {"epoch": 0.5}):
        with pytest.raises(DataError, match="counted from 0"):
            loader(folder).restore({**state, **wrong})
    with pytest.raises(DataError, match="not a state: data_set, num_samples"):
        loader(folder).restore({"epoch": 0, "batch": 0})
    states: list[Any] = [None, [], 3]
    for state in states:
        with pytest.raises(DataError, match=r"this is not a state: .*\nhint: give a dictionary that state"):
            loader(folder).restore(state)
    with pytest.raises(DataError, match="belong together"):
        loader(folder).state(epoch=1)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (RandomCrop(scale=(0.5, 1)), RandomCrop(scale=(0.5, 1.0))),
        (RandomCrop(ratio=(1, 1)), RandomCrop(ratio=[np.float32(1), np.int64(1)], flip=np.True_)),  # type: ignore[arg-type]
        (CenterCrop(1), CenterCrop(np.float64(1))),
    ],
    ids=["scale", "ratio", "fraction"],
)
def test_the_state_of_an_equal_view_is_taken(folder: Path, one: Any, same: Any) -> None:
    assert one == same and repr(one) == repr(same)
    state = json.loads(json.dumps(loader(folder, augment=one).state(0, 2)))
    batches = loader(folder, augment=same)
    batches.restore(state)
    assert_same(copied(batches), copied(loader(folder, augment=one))[2:])


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"batch_size": 0}, "batch_size=0", "above 0"),
        ({"batch_size": 2.5}, "batch_size=2.5", "whole number"),
        ({"batch_size": 24, "drop_remainder": True}, "more than the 23 samples", "smaller batch_size"),
        ({"size": 0}, "size=0", "height and width"),
        ({"size": (3, 4, 5)}, "size=(3, 4, 5)", "height and width"),
        ({"seed": -1}, "seed=-1", "whole number"),
        ({"num_threads": 0}, "num_threads=0", "one thread per core"),
        ({"shard": 2, "num_shards": 2}, "shard=2 of 2", "from 0"),
        ({"num_shards": 4}, "a batch of 3 rows leaves some of 4 shards", "drop_remainder=True"),
        ({"augment": "random"}, "augment='random'", "RandomCrop"),
        ({"weights": "text"}, "not numbers of one shape in column 'text'", "of one shape: label, weight, pair"),
        ({"targets": "boxes"}, "not numbers of one shape in column 'boxes'", "of one shape: label, weight, pair"),
        ({"targets": ("label", "labels")}, "no column 'labels'", "did you mean 'label'? columns of"),
        ({"weights": "no"}, "no column 'no'", "label, weight, pair"),
    ],
)
def test_an_invalid_request_is_an_error(folder: Path, settings: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(DataError) as caught:
        loader(folder, **settings)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"scale": scale} for scale in [(0, 1), (0.5, 2), (0.5, 0.2), 0.5, ("a", "b")]),
        *({"ratio": ratio} for ratio in [(0, 1), (2, 1), (1, 1, 1), None]),
    ],
)
def test_impossible_crops_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=next(iter(wrong))):
        RandomCrop(**wrong)
    for fraction in (0, 1.1, "all", float("nan")):
        with pytest.raises(DataError, match="fraction"):
            CenterCrop(fraction)  # type: ignore[arg-type]


def test_an_empty_data_set_is_refused() -> None:
    with pytest.raises(DataError, match="the data set is empty"):
        Sampling(0, 4, 0, True, False)


def test_the_order_is_that_of_the_first_release() -> None:
    """A state that was saved by one version must be worth something to the next."""
    assert permutation(seed=7, epoch=2, size=8).tolist() == [6, 7, 4, 0, 1, 5, 3, 2]
    first = [0.4091402819884884, 0.2467989384821796, 0.006837675498696738]
    assert uniforms(7, 2, first=3, count=1, width=3).tolist() == [first]


def test_a_draw_belongs_to_its_place() -> None:
    every = uniforms(seed=5, epoch=1, first=0, count=50, width=23)
    np.testing.assert_array_equal(uniforms(5, 1, first=17, count=9, width=23), every[17:26])
    assert every.shape == (50, 23) and every.min() >= 0 and every.max() < 1
    assert abs(every.mean() - 0.5) < 0.03  # measured 0.003; the spread of such a mean is 0.009
    assert (uniforms(5, 2, 0, 50, 23) != every).all()


def test_a_loader_needs_no_keras(folder: Path) -> None:
    """`abreast.ImageRecords` brings it; a loop over a `Loader`, as a benchmark has one, does not."""
    code = (
        "import sys; from abreast.records.loading.loader import Loader;"
        "next(iter(Loader(sys.argv[1], 5))); print('keras' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code, str(folder)], env=environment, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


# Says each row of the batches, and behind each batch its state; ends itself where that is asked for.
_READER = """
import hashlib, json, os, signal, sys
from abreast.records.loading.loader import Loader
settings = json.loads(sys.argv[2])
state, kill_behind = settings.pop("state", None), settings.pop("kill_behind", None)
batches = Loader(sys.argv[1], batch_size=5, size=16, seed=3, num_threads=2, **settings)
if state is not None:
    batches.restore(state)
while batches.epoch < 2:
    for images, labels in batches:
        rows = [[int(label), hashlib.sha256(image).hexdigest()] for image, label in zip(images, labels)]
        print(json.dumps({"rows": rows, "state": batches.state()}), flush=True)
        if kill_behind == [batches.state()["epoch"], batches.state()["batch"]]:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def begin_reader(folder: Path, **settings: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", _READER, str(folder), json.dumps(settings)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def said(reader: subprocess.Popen[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in reader.communicate(timeout=60)[0].splitlines()]


def test_one_process_and_three_read_the_same_batches(folder: Path) -> None:
    """Put together in the order of their shards, over two epochs."""
    whole, *shards = [
        said(reader)
        for reader in [begin_reader(folder)] + [begin_reader(folder, shard=i, num_shards=3) for i in range(3)]
    ]
    assert len(whole) == 10
    together = [[row for part in parts for row in part["rows"]] for parts in zip(*shards, strict=True)]
    assert together == [batch["rows"] for batch in whole]


def test_a_run_killed_in_mid_epoch_continues_in_another_process(folder: Path) -> None:
    whole = said(begin_reader(folder))
    killed = begin_reader(folder, kill_behind=[1, 3])
    first = said(killed)
    assert killed.returncode == -signal.SIGKILL and len(first) == 8
    rest = said(begin_reader(folder, state=first[-1]["state"]))
    assert [batch["rows"] for batch in first + rest] == [batch["rows"] for batch in whole]
