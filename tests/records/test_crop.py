"""A crop that is cut out of a JPEG's bytes has exactly the pixels of the full decode."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import DataError
from abreast.records.decoding import crop
from abreast.records.decoding.crop import Box, Cut, cut
from abreast.records.decoding.images import Pixels, decode_jpeg
from abreast.records.decoding.jpeg import read_header, restart_lengths
from abreast.records.packing.encoder import encode_jpeg, restart_interval
from tests.records.pieces import file_of, photo

GRAY = -1
SAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2, "gray": GRAY}


@functools.cache
def jpeg(sampling: int, width: int, height: int, interval: int, quality: int = 90) -> bytes:
    pixels = photo(height, width, 1 if sampling == GRAY else 3, seed=width * height)
    settings = {} if sampling == GRAY else {"subsampling": sampling}
    return file_of(pixels, "JPEG", quality=quality, restart_marker_blocks=interval, **settings)


@functools.cache
def decoded(data: bytes) -> Pixels:
    return decode_jpeg(data, "GRAY" if read_header(data).num_components == 1 else "RGB")


def pixels_of(piece: Cut, box: Box) -> Pixels:
    return decoded(bytes(piece.data))[piece.top : piece.top + box.height, piece.left : piece.left + box.width]


@st.composite
def crops(draw: st.DrawFn) -> tuple[bytes, Box]:
    """A JPEG whose restart interval divides its rows of units, and a box inside of it."""
    sampling = draw(st.sampled_from(list(SAMPLINGS.values())))
    width, height = draw(st.integers(1, 90)), draw(st.integers(1, 70))
    per_row = -(-width // (16 if sampling in (1, 2) else 8))
    interval = draw(st.sampled_from([n for n in range(1, per_row + 1) if per_row % n == 0]))
    left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    box = Box(left, top, draw(st.integers(1, width - left)), draw(st.integers(1, height - top)))
    return jpeg(sampling, width, height, interval), box


@settings(max_examples=300, deadline=None)
@given(crops())
def test_every_crop_has_the_pixels_of_the_full_decode(case: tuple[bytes, Box]) -> None:
    data, box = case
    piece = cut(data, box)
    assert piece is not None
    full = decoded(data)[box.top : box.bottom, box.left : box.right]
    np.testing.assert_array_equal(pixels_of(piece, box), full)  # measured 0; up to 17 of 255 without the margin


def edge_boxes(width: int, height: int) -> list[Box]:
    """Narrow boxes at the right edge, and low ones at the bottom."""
    right = [Box(width - n, 3, n, height - 3) for n in range(1, min(6, width) + 1)]
    return right + [Box(3, height - n, width - 3, n) for n in range(1, min(6, height) + 1)]


def edge_differences(sampling: int, sizes: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """The sizes of images in which a box at an edge has other pixels than the full decode."""
    wrong = set()
    for width, height in sizes:
        per_row = -(-width // (16 if sampling in (1, 2) else 8))
        for interval in {n for n in (1, 2, per_row) if per_row % n == 0}:
            data = jpeg(sampling, width, height, interval)
            for box in edge_boxes(width, height):
                piece = cut(data, box)
                assert piece is not None
                full = decoded(data)[box.top : box.bottom, box.left : box.right]
                if not np.array_equal(pixels_of(piece, box), full):
                    wrong.add((width, height))
    return wrong


WIDTHS = [(width, 20) for width in range(6, 132)]
HEIGHTS = [(24, height) for height in range(6, 68)]


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_crops_at_the_edges_are_exact_at_every_size(sampling: int) -> None:
    assert edge_differences(sampling, WIDTHS + HEIGHTS) == set()


def test_a_narrow_last_segment_alone_has_other_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: four pixels or fewer are decoded without smoothing; rows do not matter."""
    monkeypatch.setattr(crop, "_FEWEST", 0)
    wrong = edge_differences(SAMPLINGS["4:2:0"], WIDTHS + HEIGHTS)
    assert {(66, 20), (67, 20), (68, 20), (98, 20)} <= wrong
    assert not wrong & set(HEIGHTS)


def test_without_the_margin_pixels_at_the_edges_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: colours are smoothed over the edge of a unit."""
    data = jpeg(SAMPLINGS["4:2:0"], 96, 64, 2)
    box = Box(32, 16, 32, 16)
    monkeypatch.setattr(crop, "_MARGIN", 0)
    piece = cut(data, box)
    assert piece is not None
    difference = np.abs(pixels_of(piece, box).astype(int) - decoded(data)[16:32, 32:64])
    assert difference[1:-1, 1:-1].max() == 0
    assert difference.max() > 0


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_a_cut_is_a_small_jpeg_that_can_be_cut_again(sampling: int) -> None:
    data = jpeg(sampling, 192, 160, 2)
    piece = cut(data, Box(70, 70, 20, 20))
    assert piece is not None
    header = read_header(piece.data)
    assert header.width < 100 and header.height < 60
    assert len(piece.data) < len(data) / 4
    assert len(restart_lengths(piece.data)) == header.mcu_rows * header.mcus_per_row // 2


def test_the_whole_image_is_a_crop_too() -> None:
    data = jpeg(SAMPLINGS["4:2:0"], 50, 30, 2)
    piece = cut(data, Box(0, 0, 50, 30))
    assert piece is not None
    np.testing.assert_array_equal(decoded(bytes(piece.data)), decoded(data))


def test_markers_are_numbered_over_more_than_eight_segments() -> None:
    data = jpeg(SAMPLINGS["4:4:4"], 88, 64, 1)
    piece = cut(data, Box(20, 20, 60, 40))
    assert piece is not None
    begin = read_header(piece.data).scan_begin
    ends = begin + np.cumsum(restart_lengths(piece.data))
    assert len(ends) > 16
    assert [piece.data[end - 1] - 0xD0 for end in ends[:-1]] == [i % 8 for i in range(len(ends) - 1)]


def test_segments_over_the_ends_of_rows_cannot_be_cut() -> None:
    assert cut(jpeg(SAMPLINGS["4:4:4"], 24, 24, 2), Box(0, 0, 8, 8)) is None


@pytest.mark.parametrize(
    "box", [Box(-1, 0, 5, 5), Box(0, 0, 51, 5), Box(0, 0, 0, 5), Box(0, 28, 5, 5), Box(60, 0, 1, 1)]
)
def test_a_box_outside_of_the_image_is_refused(box: Box) -> None:
    with pytest.raises(DataError, match="is outside of an image"):
        cut(jpeg(SAMPLINGS["4:2:0"], 50, 30, 2), box)


def test_restarts_of_another_jpeg_are_refused() -> None:
    data = jpeg(SAMPLINGS["4:2:0"], 64, 32, 2)
    lengths = restart_lengths(data)
    with pytest.raises(DataError, match="restarts"):
        cut(data, Box(0, 0, 8, 8), lengths[:-1])
    with pytest.raises(DataError, match="the restarts end at byte"):
        cut(data, Box(0, 0, 8, 8), lengths * 100)


@pytest.mark.parametrize(
    ("width", "unit", "interval"),
    [(480, 16, 2), (500, 16, 2), (496, 16, 1), (528, 16, 3), (16, 16, 1), (480, 8, 4), (248, 8, 31), (8, 8, 1)],
)
def test_restarts_stand_about_every_32_pixels_and_divide_the_row(width: int, unit: int, interval: int) -> None:
    assert restart_interval(width, unit) == interval


@given(st.integers(1, 3000), st.sampled_from([8, 16]))
def test_the_interval_always_divides_the_row(width: int, unit: int) -> None:
    assert -(-width // unit) % restart_interval(width, unit) == 0


@pytest.mark.parametrize(("height", "width", "channels"), [(61, 97, 3), (480, 480, 3), (33, 31, 1), (1, 1, 3)])
def test_jpegs_that_we_encode_can_be_cut(height: int, width: int, channels: int) -> None:
    data = encode_jpeg(photo(height, width, channels), 95)
    box = Box(width // 3, height // 3, width - width // 3, height - height // 3)
    piece = cut(data, box)
    assert piece is not None
    np.testing.assert_array_equal(pixels_of(piece, box), decoded(data)[box.top :, box.left :])
