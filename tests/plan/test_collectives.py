"""The closed forms, by numbers that can be checked by hand: 1 GB over links of 1 GB/s."""

from __future__ import annotations

import pytest

from abreast.plan.collectives import gather_seconds, ring_seconds, tree_seconds
from benchmarks.published_model import server_in_host_seconds, server_on_device_seconds, sharded_servers_seconds

GB = 1e9


def test_a_ring_of_four_sends_three_quarters_twice() -> None:
    assert ring_seconds(GB, 4, GB) == pytest.approx(1.5)
    assert ring_seconds(GB, 4, GB, 0.1) == pytest.approx(1.5 + 6 * 0.1)
    assert ring_seconds(GB, 1, GB, 0.1) == 0


def test_a_tree_of_eight_has_three_levels_up_and_down() -> None:
    assert tree_seconds(GB, 8, GB, 0.1) == pytest.approx(2 + 6 * 0.1)
    assert tree_seconds(GB, 1, GB, 0.1) == 0


def test_servers_send_their_part_of_the_parameters() -> None:
    assert server_on_device_seconds(GB, 4, GB) == pytest.approx(6)
    assert server_in_host_seconds(GB, 4, GB, 4 * GB) == pytest.approx(2 + 1)
    assert sharded_servers_seconds(GB, 4, GB) == pytest.approx(1.5)


def test_a_gathering_receives_from_all_others() -> None:
    assert gather_seconds(GB, 4, GB, 0.1) == pytest.approx(3.3)
