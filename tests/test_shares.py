"""Rows of a global batch by process, device and part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from abreast.shares import Shares, shares_of

LAYOUTS = st.builds(
    Shares,
    rows=st.integers(1, 300),
    devices=st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple),
    parts=st.integers(1, 4),
)


def test_98_rows_on_4_devices_are_25_25_24_and_24() -> None:
    shares = shares_of(98, 4)
    assert shares.counts == (25, 25, 24, 24)
    assert shares.slices == (slice(0, 25), slice(25, 50), slice(50, 74), slice(74, 98))
    assert shares.padded_rows == 100


def test_a_device_without_rows_reads_the_first_row_as_a_stand_in() -> None:
    shares = shares_of(2, 3)
    assert shares.counts == (1, 1, 0)
    assert shares.slices == (slice(0, 1), slice(1, 2), slice(0, 1))


def test_a_process_with_one_device_and_one_with_three_share_ten_rows() -> None:
    shares = Shares(10, (1, 3))
    assert shares.counts == (3, 3, 2, 2)
    assert (shares.devices_of(0), shares.devices_of(1)) == (range(1), range(1, 4))
    assert (shares.rows_of(0), shares.rows_of(1)) == (range(3), range(3, 10))


def test_two_devices_work_on_two_parts_each() -> None:
    shares = Shares(10, (2,), parts=2)
    assert shares.part_counts == (3, 3, 2, 2)
    assert shares.counts == (6, 4)
    assert shares.slices == (slice(0, 6), slice(6, 10))


@given(LAYOUTS)
def test_every_row_belongs_to_one_process_one_device_and_one_part_in_order(shares: Shares) -> None:
    rows = [*range(shares.rows)]
    cut = [
        row for part, count in zip(shares.part_slices, shares.part_counts, strict=True) if count for row in rows[part]
    ]
    assert cut == rows
    of_devices = zip(shares.slices, shares.counts, strict=True)
    assert [row for device, count in of_devices if count for row in rows[device]] == rows
    assert [row for rank in range(len(shares.devices)) for row in shares.rows_of(rank)] == rows


@given(LAYOUTS)
def test_parts_differ_by_at_most_one_row_and_do_not_depend_on_the_device(shares: Shares) -> None:
    assert max(shares.part_counts) - min(shares.part_counts) <= 1
    together = Shares(shares.rows, (1,), parts=shares.num_devices * shares.parts)
    assert together.part_counts == shares.part_counts


@given(LAYOUTS)
def test_every_device_reads_at_least_one_row(shares: Shares) -> None:
    assert all(len(range(shares.rows)[each]) > 0 for each in (*shares.slices, *shares.part_slices))
