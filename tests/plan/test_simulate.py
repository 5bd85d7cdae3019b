"""The simulation against its closed forms, on random cases: equal where the forms hold, and monotone."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import DataError
from abreast.plan.collectives import ring_seconds, tree_seconds
from abreast.plan.events import Engine
from abreast.plan.simulate import Wires, Work, exchange_seconds, simulate

SECONDS = st.floats(1e-6, 1.0)
RATES = st.floats(1e6, 1e12)
BUCKETS = st.lists(st.tuples(SECONDS, st.floats(0, 1e9)), min_size=1, max_size=12)
HOSTS = st.tuples(st.integers(1, 8), st.integers(1, 8))  # devices per host, hosts
# In a hierarchy, one link serves two stages of a bucket, first come, first served: to arrive sooner may then mean to end later.
PIPELINES = st.sampled_from(("ring", "tree"))
ALL = st.sampled_from(("ring", "tree", "hierarchical"))
EXACT = 1e-9  # floating-point additions in another order


@st.composite
def works(draw: st.DrawFn, overlap: bool | None = None) -> Work:
    pairs = draw(BUCKETS)
    return Work(
        draw(SECONDS),
        [seconds for seconds, _ in pairs],
        [size for _, size in pairs],
        draw(st.integers(1, 4)),
        draw(st.booleans()) if overlap is None else overlap,
    )


@st.composite
def wires(draw: st.DrawFn, kinds: st.SearchStrategy[str] = PIPELINES) -> Wires:
    per_host, hosts = draw(HOSTS)
    latency = st.floats(0, 1e-3)
    return Wires(draw(kinds), per_host * hosts, hosts, draw(RATES), draw(latency), draw(RATES), draw(latency))


@settings(deadline=None)
@given(works(overlap=False), wires(st.just("ring")))
def test_without_overlap_a_ring_adds_its_closed_form(work: Work, links: Wires) -> None:
    links = replace(links, num_devices=links.devices_per_host, num_hosts=1)
    alone = sum(
        ring_seconds(size, links.num_devices, links.device_bytes_per_second, links.device_latency_seconds)
        for size in work.bucket_bytes
    )
    assert simulate(work, links).seconds == pytest.approx(work.compute_seconds + alone, rel=EXACT)


@settings(deadline=None)
@given(works(overlap=True), wires(st.sampled_from(("ring", "tree"))))
def test_with_overlap_the_last_bucket_that_waits_decides(work: Work, links: Wires) -> None:
    form = ring_seconds if links.exchange == "ring" else tree_seconds
    alone = Work(0.0, [0.0], [1.0])
    latency = simulate(alone, replace(links, device_bytes_per_second=1e300, network_bytes_per_second=1e300)).seconds
    times = [
        latency
        + max(
            float(form(size, links.devices_per_host, links.device_bytes_per_second)),
            float(form(size, links.num_devices, links.network_bytes_per_second)) if links.num_hosts > 1 else 0.0,
        )
        for size in work.bucket_bytes
    ]
    if links.num_devices == 1:
        times = [0.0] * len(times)
    backward = list(accumulate(work.backward_seconds))
    before = work.compute_seconds - backward[-1]
    expected = max(before + ready + sum(times[place:]) for place, ready in enumerate(backward))
    assert simulate(work, links).seconds == pytest.approx(expected, rel=EXACT)


def test_a_ring_over_hosts_waits_for_the_network_twice_per_host() -> None:
    links = Wires("ring", 8, 2, 1e300, 1e-3, 1e300, 1.0)  # 14 turns, 4 of them between hosts
    assert simulate(Work(0.0, [0.0], [1.0]), links).seconds == pytest.approx(4 * 1.0 + 10 * 1e-3)


@settings(deadline=None)
@given(works(), wires(st.just("hierarchical")))
def test_a_hierarchy_of_one_host_is_a_ring(work: Work, links: Wires) -> None:
    one = replace(links, num_devices=links.devices_per_host, num_hosts=1)
    assert simulate(work, one).seconds == pytest.approx(
        simulate(work, replace(one, exchange="ring")).seconds, rel=EXACT
    )


@settings(deadline=None)
@given(SECONDS, st.floats(1, 1e9), HOSTS, RATES, RATES)
def test_a_hierarchy_is_two_halves_of_a_ring_around_a_ring(
    seconds: float, size: float, counts: tuple[int, int], rate: float, network: float
) -> None:
    per_host, hosts = counts
    links = Wires("hierarchical", per_host * hosts, hosts, rate, network_bytes_per_second=network)
    expected = seconds + ring_seconds(size, per_host, rate) + ring_seconds(size, hosts, network)
    assert simulate(Work(0.0, [seconds], [size]), links).seconds == pytest.approx(expected, rel=EXACT)


@settings(deadline=None)
@given(works(), wires(ALL))
def test_no_resource_is_busy_longer_than_the_step(work: Work, links: Wires) -> None:
    found = simulate(work, links)
    assert all(busy <= found.seconds * (1 + EXACT) for busy in found.busy.values())
    assert found.seconds >= work.compute_seconds * (1 - EXACT)


@settings(deadline=None)
@given(works(), wires(), st.floats(1, 100), st.floats(0, 1e-3))
def test_faster_links_never_lengthen_a_step(work: Work, links: Wires, times: float, latency: float) -> None:
    now = simulate(work, links).seconds
    faster = replace(links, device_bytes_per_second=times * links.device_bytes_per_second)
    assert simulate(work, faster).seconds <= now * (1 + EXACT)
    network = replace(links, network_bytes_per_second=times * links.network_bytes_per_second)
    assert simulate(work, network).seconds <= now * (1 + EXACT)
    slower = replace(links, device_latency_seconds=links.device_latency_seconds + latency)
    assert simulate(work, slower).seconds >= now * (1 - EXACT)


@settings(deadline=None)
@given(works(), wires(), st.integers(2, 4))
def test_more_devices_never_shorten_a_step(work: Work, links: Wires, times: int) -> None:
    more = replace(links, num_devices=times * links.num_devices)
    assert simulate(work, more).seconds >= simulate(work, links).seconds * (1 - EXACT)


@settings(deadline=None)
@given(works(), wires(), st.floats(1, 10))
def test_one_slow_device_slows_the_step_by_no_more_than_itself(work: Work, links: Wires, slow: float) -> None:
    now, found = simulate(work, links).seconds, simulate(work, links, slow).seconds
    assert now * (1 - EXACT) <= found <= now + (slow - 1) * work.compute_seconds + now * EXACT


@settings(deadline=None)
@given(works(), wires(), st.floats(1, 50), st.floats(0, 0.9))
def test_slow_and_failing_links_lengthen_a_step(work: Work, links: Wires, slow: float, lost: float) -> None:
    bad = replace(links, slow_device_link=slow, slow_network_link=slow, lost_share=lost, retry_seconds=0.1)
    assert simulate(work, bad).seconds >= simulate(work, links).seconds * (1 - EXACT)


def test_accumulation_exchanges_once() -> None:
    links = Wires("ring", 2, device_bytes_per_second=1e9)
    assert simulate(Work(1.0, [2.0], [1e9], accumulation=4), links).seconds == pytest.approx(4 * 3.0 + 1.0)


def test_top_k_gathers_from_every_device() -> None:
    links = Wires("ring", 5, device_bytes_per_second=1e9, sparse=True)
    assert simulate(Work(0.0, [1.0], [1e9]), links).seconds == pytest.approx(1.0 + 4.0)


def test_compressing_takes_time_from_the_computation() -> None:
    links = Wires("ring", 2, device_bytes_per_second=1e9)  # 0.1 s per bucket
    work = Work(1.0, [1.0] * 10, [1e8] * 10, encode_seconds=0.05)
    assert simulate(work, links).seconds == pytest.approx(11.0 + 10 * 0.05 + 0.1)


@pytest.mark.alone
@pytest.mark.parametrize("exchange", ["ring", "hierarchical"])
def test_1024_devices_and_200_tensors_take_less_than_ten_seconds(exchange: str) -> None:
    slowest = float(np.exp(np.random.default_rng(0).normal(0, 0.1, 1024)).max())
    links = Wires(exchange, 1024, 128, 1e11, network_bytes_per_second=1e10)
    begin = time.process_time()
    found = simulate(Work(0.05, [0.1 / 200] * 200, [5e5] * 200), links, slowest)
    assert time.process_time() - begin < 10  # measured 1.5 s
    assert found.seconds > 0.15


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_impossible_work_is_refused(bad: float) -> None:
    with pytest.raises(DataError, match="negative or not finite"):
        Work(bad, [1.0], [1.0])


@settings(deadline=None)
@given(
    works(overlap=True),
    wires(st.sampled_from(("ring", "tree"))),
    st.lists(st.floats(1, 3), min_size=64, max_size=64),
)
def test_where_all_wait_for_all_the_slowest_device_decides(work: Work, links: Wires, slowdowns: list[float]) -> None:
    drawn = slowdowns[: links.num_devices]
    assert simulate(work, links, max(drawn)).seconds == pytest.approx(one_by_one(work, links, drawn), rel=EXACT)


def one_by_one(work: Work, links: Wires, slowdowns: list[float]) -> float:
    """The step with a compute stream for each device, whose buckets share one link."""
    engine = Engine()
    before = work.compute_seconds - sum(work.backward_seconds)
    computed = [engine.add(before * slow, f"device {rank}") for rank, slow in enumerate(slowdowns)]
    for seconds, size in zip(work.backward_seconds, work.bucket_bytes, strict=True):
        computed = [
            engine.add(seconds * slow, f"device {rank}", (computed[rank],)) for rank, slow in enumerate(slowdowns)
        ]
        engine.add(exchange_seconds(Work(0.0, [0.0], [size]), links), "link", computed)
    return engine.run().seconds
