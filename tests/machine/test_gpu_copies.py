"""Copies of GPUs are measured as they were planted, and everything is given back; without a GPU, on a fake driver."""

from __future__ import annotations

from typing import Any

import pytest

from abreast.device_list import Device
from abreast.machine import gpu_copies
from tests.machine.fake_cuda import LATENCY_SECONDS, Clock, FakeCuda

GPUS = [
    Device(f"gpu:{index}", "gpu", index, "Some GPU", 2**34, f"GPU-{index}", f"0000:{index:02x}:00.0")
    for index in (0, 1)
]
RATES = {"pageable": 3e9, "pinned": 12e9, "peer": 20e9, "staged": 8e9, "root": 16e9}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(gpu_copies, "time", clock)
    return clock


def measured(cuda: FakeCuda, gpus: list[Device] = GPUS) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    links = [{"from": "gpu:0", "to": "gpu:1"}] if len(gpus) == 2 else []
    return gpu_copies.measure(gpus, links, cuda), links


def test_each_bandwidth_is_what_was_planted(clock: Clock) -> None:
    facts, (link,) = measured(FakeCuda(clock, RATES))
    there = facts["host_to_device_bytes_per_second"]
    # 64 MiB at 12 GB/s take 5.6 ms, beside which the latency is 0.2 %.
    assert there["pinned"] == pytest.approx([12e9, 12e9], rel=3e-3)
    assert there["pageable"] == pytest.approx([3e9, 3e9], rel=3e-3)
    assert there["pinned_all_at_once"] == pytest.approx(16e9, rel=3e-3)
    assert facts["device_to_host_bytes_per_second"]["pinned"] == pytest.approx([12e9, 12e9], rel=3e-3)
    assert link["bytes_per_second_with_peer_access"] == pytest.approx(20e9, rel=4e-3)
    assert link["bytes_per_second_without_peer_access"] == pytest.approx(8e9, rel=3e-3)
    assert link["both_ways_bytes_per_second_with_peer_access"] == pytest.approx(40e9, rel=4e-3)


def test_the_latency_is_that_of_four_bytes(clock: Clock) -> None:
    facts, (link,) = measured(FakeCuda(clock, RATES))
    assert facts["host_to_device_latency_seconds"] == pytest.approx([LATENCY_SECONDS] * 2, rel=1e-3)
    assert link["latency_seconds_with_peer_access"] == pytest.approx(LATENCY_SECONDS, rel=1e-3)


def test_without_peer_access_only_the_way_through_the_host_is_measured(clock: Clock) -> None:
    cuda = FakeCuda(clock, RATES, peers=False)
    _, (link,) = measured(cuda)
    assert "bytes_per_second_without_peer_access" in link
    assert not [name for name in link if "with_peer" in name]
    assert cuda.counts["cuCtxEnablePeerAccess"] == cuda.counts["cuCtxDisablePeerAccess"] == 0


def test_one_gpu_is_measured_alone(clock: Clock) -> None:
    facts, _ = measured(FakeCuda(clock, RATES), GPUS[:1])
    assert "pinned_all_at_once" not in facts["host_to_device_bytes_per_second"]


def test_memory_streams_and_contexts_are_given_back(clock: Clock) -> None:
    cuda = FakeCuda(clock, RATES)
    measured(cuda)
    pairs = [
        ("cuMemAlloc_v2", "cuMemFree_v2"),
        ("cuMemHostAlloc", "cuMemFreeHost"),
        ("cuStreamCreate", "cuStreamDestroy_v2"),
        ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2"),
    ]
    assert [(cuda.counts[begin], cuda.counts[end]) for begin, end in pairs] == [(2, 2)] * 4


def test_a_driver_that_refuses_is_a_note_and_leaves_nothing(clock: Clock) -> None:
    cuda = FakeCuda(clock, RATES)
    cuda._cuMemHostAlloc = lambda *_: 2  # type: ignore[assignment, method-assign]
    facts, _ = measured(cuda)
    assert facts == {"notes": ["copies of GPUs were not measured: CUDA's driver returned 2 for cuMemHostAlloc"]}
    assert cuda.counts["cuMemFree_v2"] == cuda.counts["cuDevicePrimaryCtxRelease_v2"] == 1


def test_without_a_driver_there_is_a_note() -> None:
    facts = gpu_copies.measure(GPUS, [{"from": "gpu:0", "to": "gpu:1"}])
    assert facts["notes"][0].startswith("copies of GPUs were not measured: no CUDA driver: ")
