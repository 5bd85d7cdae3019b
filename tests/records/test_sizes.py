"""A data set packed in several sizes: each view is read where it is smallest and still has its pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.errors import DataError, WorkerError
from abreast.records import RandomCrop, Records, pack
from abreast.records.loading.loader import Loader
from abreast.records.reading.sizes import Sizes
from tests.records.pieces import assert_same, copied, photo

NUM_SAMPLES = 21
SIZE = 32
SIDES = [(96 + 3 * (i % 5), 140 - 7 * (i % 4)) for i in range(NUM_SAMPLES)]  # height and width


def packed(dest: Path, order: range = range(NUM_SAMPLES), **settings: Any) -> Path:
    samples = [{"image": photo(*SIDES[i], seed=i), "label": i, "key": f"image-{i}"} for i in order]
    pack(samples, dest, shard_mb=0.03, **settings)
    return dest


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("sizes")
    return [packed(place / "full"), packed(place / "72", size=72), packed(place / "48", size=48)]


def loader(folders: list[Path], **settings: Any) -> Loader:
    usual: dict[str, Any] = {"batch_size": 6, "size": SIZE, "seed": 3, "num_threads": 2, "smaller": folders[1:]}
    return Loader(folders[0], **(usual | settings))


def test_a_view_is_read_where_it_is_smallest_and_still_has_its_pixels(folders: list[Path]) -> None:
    sizes = Sizes(Records(folders[0]), folders[:0:-1])
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, NUM_SAMPLES, 500)
    height, width = sizes.sides[:, numbers]
    views = RandomCrop().views(height, width, (24, SIZE), rng.random((500, RandomCrop.num_draws)))
    copies, there = sizes.copies(numbers, views.boxes, (24, SIZE))
    chosen = set()
    for number, copy, (left, top, wide, tall), box in zip(
        numbers.tolist(), copies.tolist(), there.tolist(), views.boxes.tolist(), strict=True
    ):
        level = copy // NUM_SAMPLES
        chosen.add(level)
        copy_sides = [(s.width, s.height) for s in (records.sample(number) for records in sizes.records)]
        scale = np.divide(copy_sides[level], copy_sides[0])
        assert np.abs(np.array([left, top]) - box[:2] * scale).max() <= 0.5
        assert np.abs(np.array([left + wide, top + tall]) - (np.add(box[:2], box[2:])) * scale).max() <= 0.5
        assert left >= 0 and top >= 0 and left + wide <= copy_sides[level][0] and top + tall <= copy_sides[level][1]
        assert level == 0 or (wide >= SIZE and tall >= 24)
        for smaller in range(level + 1, 3):
            first, last = (
                np.rint(np.array(at) * copy_sides[smaller] / copy_sides[0])
                for at in (box[:2], np.add(box[:2], box[2:]))
            )
            assert (last - first < (SIZE, 24)).any()
    assert chosen == {0, 1, 2}


def test_pixels_are_nearly_those_of_the_largest_and_all_else_is_the_same(folders: list[Path]) -> None:
    plain, small = copied(loader(folders, smaller=())), copied(loader(folders))
    for (images, labels), (expected, wanted) in zip(small, plain, strict=True):
        assert labels.tolist() == wanted.tolist()
        difference = np.abs(images.astype(int) - expected).mean(axis=(1, 2, 3))
        assert 0 < difference.max() < 12  # a border moves by up to half a pixel


def test_without_smaller_ones_nothing_changes_and_one_as_large_changes_nothing(
    folders: list[Path], tmp_path: Path
) -> None:
    same = packed(tmp_path / "same")
    boxes = np.array([[1, 2, 60, 70]])
    copies, there = Sizes(Records(folders[0])).copies(np.array([4]), boxes, (SIZE, SIZE))
    assert copies.tolist() == [4] and there is boxes
    assert_same(copied(loader(folders, smaller=[same])), copied(loader(folders, smaller=())))


@pytest.mark.parametrize("settings", [{"num_threads": 5}, {"num_workers": 2}], ids=["threads", "processes"])
def test_threads_and_processes_give_the_same_batches(folders: list[Path], settings: dict[str, int]) -> None:
    with loader(folders, **settings) as batches:
        assert_same(copied(batches), copied(loader(folders)))


def test_an_epoch_goes_on_from_a_state_and_not_from_that_of_other_sizes(folders: list[Path]) -> None:
    first = loader(folders)
    iterator = iter(first)
    next(iterator)
    state = first.state()
    again = loader(folders, smaller=folders[:0:-1])  # named in another order
    again.restore(state)
    assert_same(copied(again), copied(iterator))
    with pytest.raises(DataError, match="the state belongs to other batches: smaller was"):
        loader(folders, smaller=str(folders[1])).restore(state)


def test_the_disk_reads_the_copies_ahead_that_are_read(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    read: list[tuple[str, int]] = []
    plain = Records.sample

    def sample(self: Records, number: int, with_columns: bool = True) -> Any:
        read.append((self.folder.name, number))
        return plain(self, number, with_columns)

    monkeypatch.setattr(Records, "sample", sample)
    monkeypatch.setattr(
        Records, "will_need", lambda self, numbers: asked.extend((self.folder.name, number) for number in numbers)
    )
    list(loader(folders))
    assert sorted(asked) == sorted(read)
    assert {name for name, _ in read} == {"full", "72", "48"}


def test_other_samples_are_refused(folders: list[Path], tmp_path: Path) -> None:
    fewer = packed(tmp_path / "fewer", range(NUM_SAMPLES - 1), size=48)
    turned = packed(tmp_path / "turned", range(NUM_SAMPLES - 1, -1, -1), size=48)
    for wrong, words in ((fewer, f"has {NUM_SAMPLES - 1} samples, and"), (turned, "does not have the samples of")):
        with pytest.raises(DataError, match=words) as caught:
            loader(folders, smaller=wrong)
        assert str(wrong) in caught.value.message and "--shuffle-seed" in (caught.value.hint or "")


def test_larger_images_and_other_shapes_are_refused(folders: list[Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sample 0 in .*full has 140 x 96 pixels, and 105 x 72"):
        loader([folders[1], folders[0]])
    pack(
        [{"image": photo(48, 48, seed=i), "label": i, "key": f"image-{i}"} for i in range(NUM_SAMPLES)],
        tmp_path / "square",
    )
    with pytest.raises(DataError, match=r"sample 0 in .*square has 48 x 48 pixels, and 140 x 96"):
        loader(folders, smaller=tmp_path / "square")


def test_processes_notice_that_a_smaller_data_set_was_packed_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    full, small = packed(tmp_path / "full"), packed(tmp_path / "small", size=48)
    with loader([full, small], num_workers=1) as batches:
        for file in small.iterdir():
            file.unlink()
        packed(small, size=47)
        with pytest.raises(WorkerError):
            list(batches)
    assert f"{small} was packed again" in capfd.readouterr().err
