"""Batches that a GPU decodes are those of the CPU except for rounding; here a replacement does a GPU's work (`dali.py`).

With `opencv`, everything except DALI's pipeline is tested; with `dali`, that too. On the CPU both decode with libjpeg, as we do,
so that only the resize differs. No GPU has run this.
"""

from __future__ import annotations

import gc
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.errors import DataError, DeviceError
from abreast.records import Box, CenterCrop, RandomCrop, Records, pack
from abreast.records.decoding import gpu_painters, gpu_pipeline
from abreast.records.decoding.decode_smaller import SmallerDecoder
from abreast.records.decoding.gpu_painters import is_for_gpu, view_of
from abreast.records.decoding.gpu_pipeline import Pipeline, PipelineSettings
from abreast.records.decoding.jpeg import read_header
from abreast.records.loading.loader import Loader
from tests.records.dali import STAND_INS, OpenCvPipeline, let_there_be_a_gpu
from tests.records.pieces import assert_same, copied, file_of, image_of, photo, said_in_a_fork

NUM_SAMPLES = 23


@pytest.fixture(params=STAND_INS)
def stand_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The replacement that does a GPU's work."""
    let_there_be_a_gpu(monkeypatch, request.param)
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JPEGs of several sizes in several shards; one is gray."""
    samples = [(photo(70 + 3 * i, 110 - 2 * i, 1 if i == 5 else 3, seed=i), i) for i in range(NUM_SAMPLES)]
    folder = tmp_path_factory.mktemp("gpu") / "out"
    pack(samples, folder, shard_mb=0.05)
    return folder


def loader(folder: Path, decoder: str = "gpu", **settings: Any) -> Loader:
    return Loader(folder, **{"batch_size": 5, "size": 32, "seed": 3, "num_threads": 2, "decoder": decoder, **settings})


def differences(found: list[Any], expected: list[Any]) -> tuple[float, int]:
    """The largest mean difference of an image, and the largest difference of any pixel; labels are equal."""
    assert len(found) == len(expected) > 0
    worst, largest = 0.0, 0
    for (images, labels), (others, other_labels) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(labels, other_labels)
        off = np.abs(images.astype(int) - others.astype(int))
        worst, largest = max(worst, float(off.mean(axis=(1, 2, 3)).max())), max(largest, int(off.max()))
    return worst, largest


WHOLE, SMOOTH, SMALLER = (0.2, 1), (1.0, 6), (1.5, 14)  # what a mean and a pixel may differ by, in steps of 255


@pytest.mark.parametrize(
    ("size", "augment", "antialias", "limit"),
    [
        ((48, 40), RandomCrop(), False, WHOLE),
        ((48, 40), CenterCrop(), False, WHOLE),
        (32, RandomCrop(scale=(0.08, 0.1)), False, WHOLE),
        ((48, 40), RandomCrop(), True, SMOOTH),
        ((48, 40), CenterCrop(), True, SMOOTH),
        (32, RandomCrop(), False, SMALLER),
        (32, CenterCrop(), True, SMALLER),
        (9, RandomCrop(), False, SMALLER),
    ],
)
def test_batches_are_those_of_the_cpu_except_for_rounding(
    folder: Path, stand_in: str, size: Any, augment: Any, antialias: bool, limit: tuple[float, int]
) -> None:
    """Pictures full of grain, on which each way to make an image smaller leaves its mark; random crops are mirrored.

    Measured by DALI and OpenCV, of the worst image: 0.14 and 1 where whole pixels are decoded, 0.86 and 5 where those are
    smoothed, 1.31 and 12 where libjpeg decodes a half or less of them, of which a mean of pixels stands here.
    """
    settings: dict[str, Any] = {"augment": augment, "antialias": antialias, "size": size}
    expected = copied(loader(folder, "cpu", **settings))
    with loader(folder, **settings) as batches:
        worst, largest = differences(copied(batches), expected)
    assert worst < limit[0] and largest <= limit[1]


def test_images_that_are_made_very_small_are_those_of_the_cpu_too(tmp_path: Path, stand_in: str) -> None:
    """By a factor of 18 and more: libjpeg decodes an eighth, of which the CPU takes means of two by two, or three by three."""
    pack([(photo(600 + 150 * i, 1700 - 150 * i, seed=i), i) for i in range(5)], tmp_path / "out")
    for augment in (CenterCrop(), RandomCrop(scale=(0.9, 1.0))):
        expected = copied(loader(tmp_path / "out", "cpu", augment=augment, antialias=False))
        worst, largest = differences(copied(loader(tmp_path / "out", augment=augment, antialias=False)), expected)
        assert worst < 1.0 and largest <= 6  # measured 0.75 and 4


def test_the_comparison_notices_a_view_that_is_half_a_pixel_off(
    folder: Path, stand_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""

    def moved(*arguments: Any) -> Any:
        view = view_of(*arguments)
        return view._replace(window=view.window._replace(left=view.window.left + 0.5))

    settings: dict[str, Any] = {"size": (48, 40), "antialias": False}
    expected = copied(loader(folder, "cpu", **settings))
    monkeypatch.setattr(gpu_painters, "view_of", moved)
    worst, largest = differences(copied(loader(folder, **settings)), expected)
    assert worst > 3 and largest > 15  # measured 4.2 and 21


def test_gray_images_alone_have_one_channel(tmp_path: Path, stand_in: str) -> None:
    pack([(photo(60, 70, channels=1, seed=i), i) for i in range(4)], tmp_path / "out")
    settings: dict[str, Any] = {"batch_size": 4, "augment": False, "antialias": False, "size": 50}
    expected = copied(loader(tmp_path / "out", "cpu", **settings))
    found = copied(loader(tmp_path / "out", **settings))
    assert found[0][0].shape == (4, 50, 50, 1)
    worst, largest = differences(found, expected)
    assert worst < WHOLE[0] and largest <= WHOLE[1]


def test_a_batch_by_its_number_is_that_of_the_iteration(folder: Path, stand_in: str) -> None:
    batches = loader(folder)
    by_number = [batches[i] for i in range(len(batches))]
    assert_same(copied(batches), by_number)


def test_threads_and_restarts_do_not_change_the_batches(folder: Path, stand_in: str) -> None:
    batches = loader(folder, num_threads=1)
    expected = copied(batches) + copied(batches)
    again = loader(folder, num_threads=5)
    again.restore(batches.state(0, 2))
    assert_same(copied(again) + copied(again), expected[2:])


def test_two_iterations_at_once_do_not_disturb_one_another(folder: Path, stand_in: str) -> None:
    with loader(folder) as batches:
        expected = copied(batches)
        batches.restore(batches.state(0, 0))
        pairs = list(zip(batches, batches, strict=True))
        for i in range(2):
            assert_same([pair[i] for pair in pairs], expected)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as they are: those that GPUs decode have even labels."""
    pixels = photo(60, 80)
    exif = image_of(pixels).getexif()
    exif[0x0112] = 6
    files = [
        file_of(pixels, "JPEG", quality=90),
        file_of(pixels, "JPEG", quality=90, progressive=True),
        file_of(pixels, "JPEG", quality=90, restart_marker_blocks=5),
        file_of(pixels, "JPEG", quality=90, keep_rgb=True),
        file_of(photo(60, 80, channels=1), "JPEG", quality=90),
        file_of(pixels, "JPEG", quality=90, exif=exif),
        file_of(pixels, "JPEG", quality=90, subsampling=0),
        file_of(image_of(pixels).convert("CMYK"), "JPEG", quality=90),
        file_of(pixels, "JPEG", quality=90, subsampling=1),
        file_of(pixels, "PNG"),
    ]
    folder = tmp_path_factory.mktemp("mixed") / "out"
    pack([{"image": file, "label": i} for i, file in enumerate(files)], folder, storage="keep")
    return folder


def test_the_cpu_decodes_other_images_of_the_same_batch(mixed: Path, stand_in: str) -> None:
    settings: dict[str, Any] = {"batch_size": 10, "size": 40, "shuffle": False, "antialias": False}
    [(expected, _)] = copied(loader(mixed, "cpu", **settings))
    [(found, labels)] = copied(loader(mixed, **settings))
    assert labels.tolist() == list(range(10))
    np.testing.assert_array_equal(found[1::2], expected[1::2])
    assert np.abs(found[::2].astype(int) - expected[::2]).max() <= 1
    assert all((found[i] != expected[i]).any() for i in range(0, 10, 2))  # they are the GPU's: those round otherwise


def test_a_batch_without_images_for_the_gpu_is_not_sent_to_it(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_there_be_a_gpu(monkeypatch)
    list(loader(mixed, batch_size=1, shuffle=False))
    assert OpenCvPipeline.runs == [1] * 5


def test_only_the_bytes_of_a_crop_are_sent_to_the_gpu(folder: Path) -> None:
    """A JPEG with restart markers."""
    with Records(folder) as records:
        sample, box = records[0], Box(40, 20, 30, 30)
        prepared = SmallerDecoder(3).prepare(sample, box, False, (32, 32, 3))
        view = view_of(prepared, box, (32, 32, 3))
        assert len(view.data) < 0.75 * len(sample.data)
        assert (view.height, view.width) == (lambda header: (header.height, header.width))(read_header(view.data))
        assert view.halvings == 0 and view.width < sample.width


@pytest.mark.parametrize(
    ("side", "size", "halvings"),
    [(63, 32, 0), (64, 32, 1), (127, 32, 1), (128, 32, 2), (512, 32, 4), (600, 32, 4), (1100, 32, 5)],
)
def test_a_view_is_halved_until_it_is_less_than_twice_as_large(
    tmp_path: Path, side: int, size: int, halvings: int
) -> None:
    pack([photo(side, side)], tmp_path / "out")
    box = Box(0, 0, side, side)
    with Records(tmp_path / "out") as records:
        view = view_of(SmallerDecoder(3).prepare(records[0], box, False, (size, size, 3)), box, (size, size, 3))
    assert view.halvings == halvings
    assert 1 <= view.window.height / size < 2
    assert view.height == view.width == -(-side // 2**halvings)
    assert view.window.height * 2**halvings == side


@pytest.mark.parametrize("number", [0, 13, 22])
def test_a_damaged_sample_is_named_as_by_the_cpu(folder: Path, tmp_path: Path, stand_in: str, number: int) -> None:
    """Its checksum is checked before anything is decoded."""
    shutil.copytree(folder, tmp_path / "out")
    with Records(tmp_path / "out") as records:
        for path, index in records.shards():
            i = number - index.first_sample
            if 0 <= i < index.num_samples:
                data = bytearray(path.read_bytes())
                data[int(index.samples["offset"][i]) + 300] ^= 1
                path.write_bytes(data)
    words = []
    for decoder in ("cpu", "gpu"):
        with pytest.raises(DataError) as caught:
            list(loader(tmp_path / "out", decoder, shuffle=False))
        words.append(str(caught.value))
    assert words[0] == words[1] and f"sample {number} (" in words[0]


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of samples whose bytes have a good checksum and end in the middle, as if so packed."""
    numbers: list[int] = []
    plain = Records.sample

    def sample(self: Records, number: int, with_columns: bool = True) -> Any:
        found = plain(self, number, with_columns)
        if number in numbers:
            half = found.data[: len(found.data) // 2]
            return replace(found, data=half, restarts=np.empty(0, np.uint32))
        return found

    monkeypatch.setattr(Records, "sample", sample)
    return numbers


def test_an_image_that_ends_too_early_is_named(folder: Path, stand_in: str, cut_off: list[int]) -> None:
    """DALI reports only that a batch failed; the CPU finds the image. The batches before it arrive."""
    expected = copied(loader(folder, shuffle=False))
    with loader(folder, shuffle=False) as batches:
        cut_off += [12, 14]
        iterator = iter(batches)
        given = [next(iterator) for _ in range(2)]
        with pytest.raises(DataError) as caught:
            next(iterator)
        assert "sample 12 (00000012) cannot be decoded: Premature end of JPEG file" in caught.value.message
        assert_same(given, expected[:2])
        cut_off.clear()
        assert_same(copied(batches), expected)


def test_a_gpu_that_fails_on_good_images_is_a_separate_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_there_be_a_gpu(monkeypatch)
    expected = copied(loader(folder))
    plain = OpenCvPipeline.run
    left = [2]

    def run(self: OpenCvPipeline, views: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise DeviceError("NVIDIA DALI has failed on gpu:0: out of memory")
        return plain(self, views)

    monkeypatch.setattr(OpenCvPipeline, "run", run)
    with loader(folder) as batches:
        with pytest.raises(DeviceError, match="out of memory"):
            list(batches)
        assert threads() == []
        assert_same(copied(batches), expected)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("abreast")]


def test_threads_end_with_the_iteration(folder: Path, stand_in: str) -> None:
    batches = loader(folder)
    for i, _ in enumerate(batches):
        assert bool(threads()) == (i < len(batches) - 1)
    for _ in batches:
        break
    gc.collect()
    assert threads() == []


def test_pipelines_are_kept_until_the_loader_is_closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_there_be_a_gpu(monkeypatch)
    released: list[int] = []
    monkeypatch.setattr(OpenCvPipeline, "release_memory", lambda: released.append(len(OpenCvPipeline.alive)))
    gc.collect()
    assert len(OpenCvPipeline.alive) == 0
    batches = loader(folder)
    list(batches)
    kept = set(OpenCvPipeline.alive)
    list(batches)
    assert 1 <= len(kept) <= 2 and kept <= set(OpenCvPipeline.alive) and len(OpenCvPipeline.alive) <= 2
    del kept
    iteration = batches._decoding.painters()  # of somebody who still has one
    batches.close()
    assert released == [0]
    iteration.leave()


def test_a_pipeline_at_work_is_freed_when_it_has_finished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_there_be_a_gpu(monkeypatch)
    gc.collect()
    batches = loader(folder, num_threads=1)
    plain = OpenCvPipeline.run
    begun, closed = threading.Event(), threading.Event()

    def run(self: OpenCvPipeline, views: Any) -> Any:
        begun.set()
        assert closed.wait(20)
        return plain(self, views)

    monkeypatch.setattr(OpenCvPipeline, "run", run)
    iterator: Any = iter(batches)
    taking = threading.Thread(target=lambda: next(iterator))
    taking.start()
    assert begun.wait(20)
    batches.close()
    closed.set()
    taking.join()
    iterator.close()
    assert len(OpenCvPipeline.alive) == 0


def test_pipelines_end_when_their_loader_is_freed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_there_be_a_gpu(monkeypatch)
    batches = loader(folder)
    list(batches)
    assert OpenCvPipeline.alive
    del batches
    gc.collect()
    assert not OpenCvPipeline.alive


def test_a_loader_frees_the_pipelines_that_it_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_there_be_a_gpu(monkeypatch)
    released: list[bool] = []
    monkeypatch.setattr(OpenCvPipeline, "release_memory", lambda: released.append(True))
    batches = loader(folder)
    list(batches)
    monkeypatch.setattr(gpu_pipeline, "Pipeline", Pipeline)  # as when a test's stand-in leaves before its loader
    del batches
    gc.collect()
    assert released == [True]


def test_a_gpu_is_not_used_after_a_fork(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_there_be_a_gpu(monkeypatch)
    batches = loader(folder)
    list(batches)

    def go_on() -> str:
        try:
            list(batches)
        except DeviceError as error:
            return str(error)
        return "it goes on"

    assert said_in_a_fork(go_on) == (
        "this process cannot use the GPU: it was forked from a process that decodes on it\n"
        "hint: open the data set in each process, or fork before the first batch; "
        'decoder="cpu" goes through a fork'
    )


@pytest.mark.parametrize(
    ("file", "good"),
    [
        ({}, True),
        ({"subsampling": 0}, True),
        ({"restart_marker_blocks": 3}, True),
        ({"progressive": True}, False),
        ({"keep_rgb": True}, False),
    ],
)
def test_a_gpu_gets_baseline_jpegs(file: dict[str, Any], good: bool) -> None:
    assert is_for_gpu(read_header(file_of(photo(40, 50), "JPEG", **file))) == good


def test_a_gpu_gets_no_cmyk_and_no_adobe_rgb() -> None:
    assert is_for_gpu(read_header(file_of(photo(40, 50, channels=1), "JPEG")))
    assert not is_for_gpu(read_header(file_of(image_of(photo(40, 50)).convert("CMYK"), "JPEG")))
    data = file_of(photo(40, 50), "JPEG")
    for transform, good in ((1, True), (0, False)):
        adobe = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00" + bytes([transform])
        assert is_for_gpu(read_header(data[:2] + adobe + data[2:])) == good
    extended = bytearray(data)
    extended[extended.index(b"\xff\xc0") + 1] = 0xC1
    assert not is_for_gpu(read_header(extended))


@pytest.mark.parametrize("stand_in", STAND_INS[1:], indirect=True)
def test_an_error_of_dali_keeps_its_message(folder: Path, stand_in: str) -> None:
    from abreast.records.decoding.gpu_pipeline import Pipeline
    from tests.records.dali import ON_CPU

    with Records(folder) as records:
        box = Box(0, 0, 60, 60)
        view = view_of(SmallerDecoder(3).prepare(records[0], box, False, (32, 32, 3)), box, (32, 32, 3))
    pipeline = Pipeline(PipelineSettings((32, 32, 3), False, 1, 2, 1), ON_CPU)
    assert pipeline.run([view, view]).shape == (2, 32, 32, 3)
    with pytest.raises(DeviceError) as caught:
        pipeline.run([view, view._replace(data=view.data[:200])])
    assert str(caught.value).startswith("NVIDIA DALI has failed on cpu:0: ") and "hint: " in str(caught.value)
    assert not any(word in caught.value.message for word in ("Traceback", "File", "no longer valid"))
