"""What follows after n batches of a source is what would have followed: `begin_at` for each kind of source."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.client import Workers


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
    assert found[2][2] == "the data source was read again up to batch 3: 0.0 s"


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
