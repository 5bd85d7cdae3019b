"""What follows after n batches of a source is what would have followed: `begin_at` for each kind of source."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.client import Workers
from tests.harness.installed import skip_without_grain


class _Bodies:
    """The functions of `jump_bodies.py` by name: pytest itself must not import Keras."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(__module__="tests.feed.jump_bodies", __name__=name)


bodies = _Bodies()


@pytest.mark.parametrize("shuffle", [False, True, "batch"])
def test_arrays_go_on_after_any_number_of_batches(workers: Workers, shuffle: Any) -> None:
    found = workers.abreast.run(bodies.arrays, shuffle=shuffle, nums=[0, 1, 2, 3])
    assert found == [[True, 3, None], [True, 2, None], [True, 1, None], [True, 0, None]]


@pytest.mark.parametrize("shuffle", [True, "batch"])
def test_a_process_goes_on_with_its_parts_of_arrays(workers: Workers, shuffle: Any) -> None:
    assert workers.abreast.run(bodies.parts, shuffle=shuffle, nums=[1, 3]) == [[True, 2, None], [True, 0, None]]


def test_rows_of_skipped_batches_of_arrays_are_not_read(workers: Workers) -> None:
    found = workers.abreast.run(bodies.rows_read_of_arrays)
    assert found == ([] if workers.backend == "tensorflow" else [3])


def test_a_generator_is_read_again(workers: Workers) -> None:
    found = workers.abreast.run(bodies.generator, nums=[0, 1, 3, 5])
    assert [each[:2] for each in found] == [[True, 5], [True, 4], [True, 2], [True, 0]]
    assert found[0][2] is None
    assert found[2][2].startswith("the data source was read again up to batch 3: ")


def test_a_source_that_has_become_shorter_is_refused(workers: Workers) -> None:
    assert workers.abreast.run(bodies.ends_early) == (
        "DataError: the data source ended after 3 batches, and 4 had been taken from it\nhint: give it the same data as before"
    )


@pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "parts"])
def test_images_go_on_after_any_number_of_batches(workers: Workers, tmp_path: Path, in_parts: bool) -> None:
    found, decoded = workers.abreast.run(
        bodies.images, folder=str(tmp_path / "p"), nums=[0, 1, 2, 3], in_parts=in_parts
    )
    assert found == [[True, 3, None], [True, 2, None], [True, 1, None], [True, 0, None]]
    assert sum(decoded) == (2 if in_parts else 3)  # the rows of the last batch


def test_images_end_their_epoch_after_a_jump(workers: Workers, tmp_path: Path) -> None:
    assert workers.abreast.run(bodies.images_after_a_jump, folder=str(tmp_path / "p")) == [3 + 20, 3 + 20]


def test_a_fingerprint_of_a_source_names_what_has_changed(workers: Workers) -> None:
    needed = {"tf.data": "tensorflow", "torch": "torch", "grain": "grain"}
    kinds = [*[kind for kind, name in needed.items() if find_spec(name)], "arrays", "generator", "PyDataset"]
    changed = {
        "arrays": ["checksum"],
        "generator": ["arrays"],
        "PyDataset": ["batch_size"],
        "tf.data": ["pipeline"],
        "torch": ["sampler", "checksum"],
        "grain": ["batch_size"],
    }
    assert workers.abreast.run(bodies.fingerprints, kinds=kinds) == {kind: [[], changed[kind]] for kind in kinds}


@pytest.mark.parametrize("how", ["plain", "counts", "own", "module", "global"])
def test_a_data_set_goes_on_with_what_its_hooks_and_reads_change(workers: Workers, how: str) -> None:
    found = [each for ahead in (0, 1) for each in workers.abreast.run(bodies.datasets, how=how, nums=[2], ahead=ahead)]
    assert [each[0] for each in found] == [True, True]


def test_batches_of_a_data_set_are_not_read_where_only_their_index_counts(workers: Workers) -> None:
    assert workers.abreast.run(bodies.datasets, how="plain", nums=[2]) == [[True, 1, None]]
    [[_, num_reads, note]] = workers.abreast.run(bodies.datasets, how="own", nums=[2])
    assert num_reads == 1 + 2 and note.startswith("the data source was read again")


@pytest.mark.in_turn
@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_workers_of_a_data_set_go_on_after_its_first_batches(workers: Workers, processes: bool) -> None:
    settings = {"workers": 2, "use_multiprocessing": processes}
    found = workers.abreast.run(bodies.datasets, how="plain", nums=[1, 3], **settings)
    assert [[exact, note] for exact, _, note in found] == [[True, None], [True, None]]


@pytest.mark.skipif(not find_spec("torch"), reason="without PyTorch")
@pytest.mark.parametrize(("how", "num_reads"), [("plain", 4), ("own", 4 + 8), ("global", 4 + 8), ("torch", 4 + 8)])
def test_a_loader_goes_on_and_reads_only_what_it_must(workers: Workers, how: str, num_reads: int) -> None:
    [[exact, found, _]] = workers.abreast.run(bodies.loaders, how=how, nums=[2])
    assert (exact, found) == (True, num_reads)
    if how == "torch" and workers.backend == "torch":
        return  # it is not read ahead, because steps draw, too
    [[exact, _, _]] = workers.abreast.run(bodies.loaders, how=how, nums=[2], ahead=1)
    assert exact


@pytest.mark.in_turn
@pytest.mark.skipif(not find_spec("torch"), reason="without PyTorch")
@pytest.mark.parametrize("how", ["tensors", "torch"])
def test_a_loader_with_workers_goes_on(workers: Workers, how: str) -> None:
    """Of a data set that says nothing about itself, workers draw from generators that nobody sees: it is read again."""
    [[exact, _, note]] = workers.abreast.run(bodies.loaders, how=how, nums=[2], workers=2)
    assert exact
    assert (note is None) == (how == "tensors")


@pytest.mark.skipif(not find_spec("tensorflow"), reason="without TensorFlow")
@pytest.mark.parametrize("how", ["global seed", "seed", "repeated", "drawing"])
def test_a_seeded_tf_data_pipeline_goes_on_in_the_order_of_its_epoch(workers: Workers, how: str) -> None:
    [[exact, _, note]] = workers.abreast.run(bodies.tf_data, how=how, nums=[2])
    assert exact
    assert note.startswith("the data source was read again up to batch 2: ") and "\n" not in note


@pytest.mark.skipif(not find_spec("tensorflow"), reason="without TensorFlow")
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("unseeded", "tf.data shuffles without a seed: the rest of this epoch has another order"),
        ("cached", "tf.data caches a shuffled data set: the rest of this epoch has another order"),
        (
            "variable",
            "tf.data draws from a generator that it keeps as a variable: the rest of this epoch is not exactly",
        ),
    ],
)
def test_what_a_tf_data_pipeline_loses_is_said(workers: Workers, how: str, words: str) -> None:
    [[_, _, note]] = workers.abreast.run(bodies.tf_data, how=how, nums=[2])
    assert note.splitlines()[1].startswith(words)


def test_grain_goes_on_and_reads_its_numbered_batches_only(workers: Workers) -> None:
    skip_without_grain()
    found = workers.abreast.run(bodies.grain_data, how="numbered", nums=[2, 3])
    assert [[exact, note is None] for exact, _, note in found] == [[True, True], [True, False]]
    [[exact, _, note]] = workers.abreast.run(bodies.grain_data, how="filtered", nums=[2])
    assert exact and note is not None


def test_arrays_that_tensorflow_shuffles_without_a_seed_are_said(workers: Workers) -> None:
    if workers.backend != "tensorflow":
        pytest.skip("NumPy and PyTorch have a state that is put back")
    assert workers.abreast.run(bodies.unseeded_arrays).startswith(
        "TensorFlow shuffled these arrays without a seed: the rest"
    )
