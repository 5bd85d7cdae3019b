"""The output of `abreast machine` as a machine to plan for, with the drivers and matrices of its own tests."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from abreast import cli
from abreast.device_list import Device
from abreast.errors import DataError
from abreast.machine import gpu_copies, machine
from abreast.machine.gpu_links import gpu_facts, links
from abreast.machine.topology import parse
from abreast.plan.collectives import ring_seconds
from abreast.plan.machine import Machine, find_machine
from abreast.plan.measured_machine import SIMULATED
from abreast.plan.models import model_of
from abreast.plan.predict import predict
from abreast.plan.rings import has_ring, slowest_of_fastest_ring
from abreast.plan.roofline import StepTime
from abreast.plan.setup import Setup
from tests.machine.fake_cuda import LATENCY_SECONDS, Clock, FakeCuda
from tests.machine.test_gpu_copies import RATES
from tests.machine.test_gpu_links import FakeDriver
from tests.machine.test_topology import DGX_1, PCIE_BOX

V100 = "Tesla V100-SXM2-16GB"


def gpus(count: int, model: str = V100) -> list[Device]:
    return [
        Device(f"gpu:{card}", "gpu", card, model, 2**34, f"GPU-{card}", f"00000000:0{card}:00.0")
        for card in range(count)
    ]


def told(devices: list[Device], matrix: str | None = None) -> dict[str, Any]:
    """The output of `abreast machine --quick` with the tests' driver."""
    topology = None if matrix is None else parse(matrix)
    return {
        "format": 1,
        "made_by": "abreast 0.1",
        "date": "2026-01-01T00:00:00Z",
        "cpu": "Some CPU",
        "gpus": gpu_facts(devices, FakeDriver(), Path("/nowhere")),
        "links": links(devices, topology, FakeDriver()),
    }


def summed(devices: int, rate: float, latency_seconds: float) -> list[dict[str, Any]]:
    """All-reduces over a ring with links of this rate and latency."""
    turns = 2 * (devices - 1)
    return [
        {"devices": devices, "bytes": size, "seconds": turns / devices * size / rate + turns * latency_seconds}
        for size in (2**12, 2**20, 2**28)
    ]


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def find(facts: dict[str, Any]) -> Machine:
        path = tmp_path / "machine.json"
        path.write_text(json.dumps(facts))
        return find_machine(str(path))

    return find


def test_the_plan_uses_an_all_reduce_over_all_gpus(read: Any) -> None:
    facts = told(gpus(8), DGX_1) | {"all_reduce": summed(4, 9e9, 0.0) + summed(8, 120e9, 5e-6)}
    found = read(facts | {"all_reduce_simulated": False})
    assert (found.name, found.device.name, found.devices_per_host) == ("8 x Tesla V100-SXM2-16GB", "V100", 8)
    link = found.device_link
    assert link.kind == "all-reduce" and found.assumed == ()
    largest = facts["all_reduce"][-1]
    assert ring_seconds(largest["bytes"], 8, link.bytes_per_second, link.latency_seconds) == pytest.approx(
        largest["seconds"],
        rel=0.03,  # 0.018: the latency of the largest is in its rate too
    )
    assert found.sources["device_link"] == (
        "measured: all-reduce of 256 MiB over 8 devices (abreast 0.1, 2026-01-01T00:00:00Z)"
    )


@pytest.mark.parametrize("simulated", [True, False])
def test_the_plan_does_not_use_an_all_reduce_over_other_devices(read: Any, simulated: bool) -> None:
    over = 8 if simulated else 4
    facts = told(gpus(8), DGX_1) | {"all_reduce": summed(over, 9e9, 0.0), "all_reduce_simulated": simulated}
    assert read(facts).device_link.kind == "nvlink"


def test_a_ring_of_nvlinks_is_found_in_the_matrix(read: Any) -> None:
    link = read(told(gpus(8), DGX_1)).device_link
    assert (link.kind, link.bytes_per_second) == ("nvlink", 50e9)  # the tests' driver has two links of 25 GB/s


@pytest.mark.parametrize(
    ("peers", "kind"), [([True, False], "pcie-through-host"), ([True, True], "pcie-peer"), ([None, None], "pcie")]
)
def test_without_nvlinks_pcie_and_peer_access_give_the_kind(read: Any, peers: list[bool | None], kind: str) -> None:
    facts = told(gpus(4), PCIE_BOX)
    for entry, peer in zip(facts["links"], itertools.cycle(peers), strict=False):
        entry["peer_access"] = peer
    link = read(facts).device_link
    assert (link.kind, link.bytes_per_second) == (kind, 985e6)  # two of them are on risers of one lane


def test_measured_copies_take_precedence_over_the_driver(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(gpu_copies, "time", clock)
    facts = told(gpus(2))
    facts |= gpu_copies.measure(gpus(2), facts["links"], FakeCuda(clock, RATES))
    found = read(facts)
    assert found.device_link.kind == "measured"
    assert found.device_link.bytes_per_second == pytest.approx(RATES["peer"], rel=4e-3)
    assert found.device_link.latency_seconds == pytest.approx(LATENCY_SECONDS, rel=1e-3)
    assert found.host_copy_bytes_per_second == pytest.approx(RATES["root"] / 2, rel=3e-3)  # both are fed at once


def test_a_ring_goes_around_the_slow_links(read: Any) -> None:
    """A DGX-1: a ring leads over pairs with two NVLinks alone, as NCCL's does; others copy at 24 and 9 GB/s."""
    facts = told(gpus(8), DGX_1)
    rates = {"NV1": 24e9, "NV2": 48e9, "SYS": 9e9}
    for entry in facts["links"]:
        entry["bytes_per_second_with_peer_access"] = rates[entry["class"]]
    assert read(facts).device_link.bytes_per_second == 48e9


def test_a_card_with_an_unknown_name_has_the_facts_of_its_driver(read: Any) -> None:
    facts = told(gpus(1, "NVIDIA Some New GPU"))
    found = read(facts)
    assert found.device.name == "NVIDIA Some New GPU"
    assert found.device.memory_bytes_per_second == pytest.approx(898e9, rel=1e-3)
    assert found.devices_per_host == 1


def test_the_slowest_of_different_cards_counts_and_the_plan_reports_that(read: Any) -> None:
    facts = told(gpus(2))
    facts["gpus"][1] |= {"model": "NVIDIA GeForce GTX 1070", "memory_bytes_per_second": 256e9}
    found = read(facts)
    assert found.device.name == "GTX1070"
    assert found.assumed == ("all 2 GPUs are as the slowest of them",)


def test_a_network_a_name_and_assumptions_may_be_added(read: Any) -> None:
    network = {"kind": "tcp", "bytes_per_second": 1.25e9}
    found = read(told(gpus(8), DGX_1) | {"network": network, "name": "ours", "assumed": ["the network"]})
    assert found.network is not None and found.network.bytes_per_second == 1.25e9
    assert (found.name, found.assumed) == ("ours", ("the network",))


def test_without_a_gpu_the_simulated_devices_are_planned_for(read: Any) -> None:
    facts = {"format": 1, "cpu": "Some CPU", "gpus": [], "links": [], "memory_copy_bytes_per_second": 8e9}
    found = read(facts | {"all_reduce": summed(2, 2e9, 1e-4), "all_reduce_simulated": True})
    assert found.name == "2 simulated devices on Some CPU"
    assert found.device.memory_bytes_per_second == 16e9
    assert found.device_link.latency_seconds == pytest.approx(1e-4, rel=0.03)  # 0.02: 4 KiB at 2 GB/s
    assert found.assumed == (SIMULATED,) and found.shares_cores
    setup = Setup(model_of(1e6), found, StepTime(0.1, 1.0, "given"), 32)
    apart = predict(setup.on(replace(found, shares_cores=False)), 2)
    assert predict(setup, 2).low == pytest.approx(apart.low / 2)
    assert predict(setup, 2).high == apart.high


def test_a_quick_list_of_this_machine_without_gpus_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "list_devices", lambda _: [])
    assert cli.main(["machine", "--quick", "-o", "machine.json"]) == 0
    assert cli.main(["plan", "--machine", "machine.json", "--model", "resnet50", "--step-time", "0.5"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "machine.json has no GPU, and simulated devices were not measured\nhint: `abreast machine" in shown.err


PCIE = {"pcie_bytes_per_second_each_way": 1e10}
DAMAGE: dict[str, tuple[dict[str, Any], str]] = {
    "another format": ({"format": 2}, "format is 2, and this version reads 1"),
    "no list of GPUs": ({"gpus": "eight"}, "gpus is not a list of objects"),
    "a GPU of another machine": ({"links": [{"from": "gpu:0", "to": "gpu:9"}]}, "'gpu:0' and 'gpu:9', and not both"),
    "a rate below zero": (
        {"links": [{"from": "gpu:0", "to": "gpu:1", "bytes_per_second_with_peer_access": -1}]},
        "bytes_per_second_with_peer_access is -1",
    ),
    "an all-reduce without a time": ({"all_reduce": [{"devices": 2, "bytes": 4096}]}, "seconds is missing"),
    "an all-reduce of one": ({"all_reduce": [{"devices": 1, "bytes": 4096, "seconds": 1e-5}]}, "is over 1 device"),
    "an all-reduce that nothing reaches": (
        {"all_reduce": [{"devices": 2, "bytes": 4e20, "seconds": 1e-5}]},
        "beyond any link or memory",
    ),
    "a copy that is a word": ({"host_to_device_bytes_per_second": {"pinned": ["fast"]}}, "pinned is 'fast'"),
    "assumptions that are none": ({"assumed": "nothing"}, "assumed is 'nothing'"),
    "a card of which nothing is known": (
        {"gpus": [{"name": "gpu:0", "model": "X", "pcie": 1}]},
        "nothing is known about X",
    ),
    "a memory that is a word": (
        {"gpus": [{"name": "gpu:0", "model": V100, "memory_bytes_per_second": "fast", **PCIE}]},
        "memory_bytes_per_second is 'fast'",
    ),
    "a memory that no float holds": (
        {"gpus": [{"name": "gpu:0", "model": V100, "memory_bytes_per_second": 10**400, **PCIE}]},
        "memory_bytes_per_second is inf",
    ),
    "an all-reduce of half a device": (
        {"all_reduce": [{"devices": 2.5, "bytes": 4096, "seconds": 1e-5}]},
        "devices is 2.5",
    ),
    "ends of a link that are lists": (
        {"links": [{"from": ["gpu:0"], "to": {}}]},
        "and not both are in its gpus",
    ),
    "assumptions that are numbers": ({"assumed": [1]}, "assumed is [1]"),
    "no link at all": (
        {
            "links": [],
            "gpus": [{"name": f"gpu:{card}", "model": "T4", "memory_bytes_per_second": 3e11} for card in (0, 1)],
        },
        "nothing is known about the links between its 2 GPUs",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_missing_or_impossible_facts_are_one_error(read: Any, damage: str) -> None:
    change, message = DAMAGE[damage]
    with pytest.raises(DataError) as caught:
        read(told(gpus(2)) | change)
    assert message in caught.value.message and caught.value.hint


@pytest.mark.parametrize("peer", ["yes", [], {}, 1e300])
def test_peer_access_that_is_neither_true_nor_false_is_unknown(read: Any, peer: Any) -> None:
    facts = told(gpus(2))
    facts["links"][0]["peer_access"] = peer
    assert read(facts).device_link.kind == "pcie"


def test_the_fastest_ring_is_that_of_all_orders() -> None:
    """Beside every order of up to six devices; a third of the pairs has no link."""
    draw = random.Random(0)
    for _ in range(100):
        count = draw.randint(2, 6)
        rates: dict[tuple[int, int], float] = {}
        for first, second in itertools.combinations(range(count), 2):
            if draw.random() < 0.67:
                rates[first, second] = rates[second, first] = float(draw.randint(1, 5))
        slowest = [
            min(rates.get(pair, 0.0) for pair in itertools.pairwise((0, *order, 0)))
            for order in itertools.permutations(range(1, count))
        ]
        assert (slowest_of_fastest_ring(rates, count) or 0.0) == max(slowest)


def test_sixteen_devices_without_a_ring_are_recognized_quickly() -> None:
    """All devices but one are connected with all, and that one with one: half a second at most; trying all orders takes days."""
    joined = [*itertools.permutations(range(15), 2), (0, 15), (15, 0)]
    assert not has_ring(joined, 16)
