"""The values read from a JPEG's headers; any bytes are harmless."""

from __future__ import annotations

import random
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import DataError
from abreast.records.decoding.crop import Box, cut
from abreast.records.decoding.jpeg import read_header, restart_lengths
from tests.records.pieces import file_of, photo

WITH_RESTARTS = file_of(photo(40, 64), "JPEG", quality=80, subsampling=2, restart_marker_blocks=2)


@pytest.mark.parametrize(("subsampling", "width", "height"), [(0, 8, 8), (1, 16, 8), (2, 16, 16)])
def test_the_size_of_a_unit_follows_the_sampling(subsampling: int, width: int, height: int) -> None:
    header = read_header(file_of(photo(33, 50), "JPEG", subsampling=subsampling))
    assert (header.width, header.height, header.num_components) == (50, 33, 3)
    assert (header.mcu_width, header.mcu_height) == (width, height)
    assert header.sequential and header.restart_interval == 0


def test_a_gray_jpeg_has_units_of_one_block() -> None:
    header = read_header(file_of(photo(33, 50, channels=1), "JPEG"))
    assert (header.mcu_width, header.mcu_height, header.mcus_per_row, header.mcu_rows) == (8, 8, 7, 5)


def test_sampling_factors_of_a_gray_jpeg_mean_nothing() -> None:
    data = file_of(photo(33, 50, channels=1), "JPEG", restart_marker_blocks=7)
    frame = data.index(b"\xff\xc0")
    assert data[frame + 11] == 0x11
    other = data[: frame + 11] + b"\x22" + data[frame + 12 :]
    assert read_header(other).mcu_width == 8
    assert len(restart_lengths(other)) == len(restart_lengths(data)) == 5


def test_segments_of_the_scan_end_in_markers() -> None:
    header = read_header(WITH_RESTARTS)
    lengths = restart_lengths(WITH_RESTARTS)
    assert (header.restart_interval, len(lengths)) == (2, 2 * 3)
    ends = header.scan_begin + np.cumsum(lengths)
    assert [WITH_RESTARTS[end - 2 : end].hex() for end in ends] == ["ffd0", "ffd1", "ffd2", "ffd3", "ffd4", "ffd9"]
    assert ends[-1] == len(WITH_RESTARTS)


@pytest.mark.parametrize("settings", [{}, {"progressive": True, "restart_marker_blocks": 2}], ids=str)
def test_without_restarts_or_in_several_scans_there_is_nothing_to_cut(settings: dict[str, Any]) -> None:
    data = file_of(photo(40, 64), "JPEG", **settings)
    assert not len(restart_lengths(data))
    assert cut(data, Box(0, 0, 5, 5)) is None


@pytest.mark.parametrize("place", ["ffd0", "ffd3"])
def test_a_scan_that_lacks_a_marker_is_not_cut(place: str) -> None:
    begin = read_header(WITH_RESTARTS).scan_begin
    at = WITH_RESTARTS.index(bytes.fromhex(place), begin)
    assert not len(restart_lengths(WITH_RESTARTS[:at] + WITH_RESTARTS[at + 2 :]))
    assert not len(restart_lengths(WITH_RESTARTS[:at] + b"\xff\xd6" + WITH_RESTARTS[at + 2 :]))
    assert not len(restart_lengths(WITH_RESTARTS[:at]))


def harmless(data: bytes) -> None:
    """Parse and cut: a result or a `DataError`, nothing else."""
    try:
        header = read_header(data)
        restart_lengths(data, header)
        cut(data, Box(0, 0, 1, 1))
        cut(data, Box(header.width // 2, header.height // 2, 1, 1), np.array([5, 2**32 - 1] * 3, np.uint32))
    except DataError:
        pass


@given(st.binary(max_size=400))
def test_any_bytes_are_harmless(data: bytes) -> None:
    harmless(data)
    harmless(b"\xff\xd8" + data)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """A few bytes changed, cut out, doubled, or put from elsewhere."""
    broken = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 4, 16])):
        place, size = draw.randrange(len(broken)), draw.randrange(1, 9)
        match draw.randrange(5):
            case 0:
                broken[place] = draw.randrange(256)
            case 1:
                broken[place] = draw.choice([0, 0xFF, 0xD0, 0xD8, 0xD9, 0xDA, 0xC0, 0xC2, 0x7F])
            case 2 if len(broken) > 20:
                del broken[place : place + size]
            case 3:
                broken[place:place] = broken[place : place + size]
            case _:
                other = draw.randrange(len(broken))
                broken[place : place + size] = broken[other : other + size]
    return bytes(broken)


@pytest.mark.parametrize("count", [3_000, pytest.param(1_000_000, marks=[pytest.mark.full, pytest.mark.timeout(3600)])])
def test_mutated_jpegs_are_harmless(count: int) -> None:
    header = WITH_RESTARTS[: read_header(WITH_RESTARTS).scan_begin + 40]
    draw = random.Random(0)
    slowest = 0.0
    for _ in range(count):
        data = mutated(draw.choice([WITH_RESTARTS, header]), draw)
        began = time.process_time()
        harmless(data)
        slowest = max(slowest, time.process_time() - began)
    assert slowest < 1


def test_a_huge_claim_allocates_nothing() -> None:
    frame = WITH_RESTARTS.index(b"\xff\xc0")
    huge = WITH_RESTARTS[: frame + 5] + b"\xff\xff\xff\xff" + WITH_RESTARTS[frame + 9 :]
    tracemalloc.start()
    try:
        assert not len(restart_lengths(huge))
        assert cut(huge, Box(0, 0, 60_000, 60_000)) is None
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_endless_segments_before_the_image_are_refused() -> None:
    with pytest.raises(DataError, match="more than"):
        read_header(b"\xff\xd8" + b"\xff\xe0\x00\x02" * 20_000)


@settings(max_examples=200)
@given(st.integers(0, len(WITH_RESTARTS) - 1))
def test_every_shorter_jpeg_is_refused_or_cannot_be_cut(size: int) -> None:
    try:
        assert not len(restart_lengths(WITH_RESTARTS[:size]))
    except DataError:
        assert size <= read_header(WITH_RESTARTS).scan_begin
