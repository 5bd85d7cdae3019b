"""Facts of GPUs without measuring: from a driver that a test wrote, and from files as on Linux."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from abreast.device_list import Device
from abreast.machine.gpu_links import gpu_facts, links
from abreast.machine.topology import parse
from tests.machine.test_topology import DGX_1, PCIE_BOX


class FakeDriver:
    """Four cards, two NVLinks of version 2 each; cards 0 and 3 are on a riser with one lane."""

    NVML_P2P_CAPS_INDEX_READ, NVML_P2P_STATUS_OK = 0, 0
    NVML_CLOCK_MEM = 2

    class NVMLError(Exception):
        pass

    def __init__(self, there: bool = True) -> None:
        self.there = there

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.there:
            raise self.NVMLError

    def nvmlShutdown(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        return int(uuid.removeprefix("GPU-"))

    def nvmlDeviceGetIndex(self, handle: int) -> int:  # noqa: N802
        return handle

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: int) -> int:  # noqa: N802
        return 3

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: int) -> int:  # noqa: N802
        return 1 if handle in (0, 3) else 16

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return 7, 0

    def nvmlDeviceGetMaxClockInfo(self, handle: int, which: int) -> int:  # noqa: N802
        return {self.NVML_CLOCK_MEM: 877}[which]

    def nvmlDeviceGetMemoryBusWidth(self, handle: int) -> int:  # noqa: N802
        if handle == 1:
            raise self.NVMLError  # an old driver
        return 4096

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:  # noqa: N802
        if link > 3:
            raise self.NVMLError
        return int(link < 2)

    def nvmlDeviceGetNvLinkVersion(self, handle: int, link: int) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetP2PStatus(self, first: int, second: int, what: int) -> int:  # noqa: N802
        return 0 if abs(first - second) == 1 else 3


def gpu(index: int, card: int) -> Device:
    return Device(f"gpu:{index}", "gpu", index, "Some GPU", 2**34, f"GPU-{card}", f"00000000:0{card}:00.0")


def test_pcie_and_nvlink_come_from_the_driver() -> None:
    riser, slot = gpu_facts([gpu(0, 0), gpu(1, 1)], FakeDriver(), Path("/nowhere"))
    assert (riser["pcie_generation"], riser["pcie_width"]) == (3, 1)
    assert riser["pcie_bytes_per_second_each_way"] == 985e6
    assert slot["pcie_bytes_per_second_each_way"] == 16 * 985e6
    assert slot["nvlink_bytes_per_second_each_way"] == 50e9
    assert slot["compute_capability"] == "7.0"
    # A V100: 877 MHz, 4,096 bits; NVIDIA states 900 GB/s.
    assert riser["memory_bytes_per_second"] == pytest.approx(898e9, rel=1e-3)
    assert "memory_bytes_per_second" not in slot


def test_links_are_those_of_the_visible_cards() -> None:
    """A process sees cards 1 and 4 of a DGX-1, in reverse order."""
    (link,) = links([gpu(0, 4), gpu(1, 1)], parse(DGX_1), FakeDriver())
    assert link == {"from": "gpu:0", "to": "gpu:1", "class": "SYS", "num_nvlinks": 0, "peer_access": False}


def test_a_pair_in_one_switch_group_has_peer_access() -> None:
    found = links([gpu(index, index) for index in range(4)], parse(PCIE_BOX), FakeDriver())
    assert [(link["class"], link["peer_access"]) for link in found] == [
        ("PIX", True),
        ("PHB", False),
        ("PHB", False),
        ("PHB", True),
        ("PHB", False),
        ("PIX", True),
    ]


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A card that could do generation 4 with 16 lanes in a port of generation 3; the link has 8 lanes now."""
    port = tmp_path / "sys/devices/pci0000:00/0000:00:01.0"
    card = port / "0000:01:00.0"
    card.mkdir(parents=True)
    (port / "max_link_speed").write_text("8.0 GT/s PCIe\n")
    (card / "max_link_speed").write_text("16.0 GT/s PCIe\n")
    (card / "current_link_width").write_text("8\n")
    (card / "numa_node").write_text("1\n")
    by_address = tmp_path / "sys/bus/pci/devices"
    by_address.mkdir(parents=True)
    (by_address / "0000:01:00.0").symlink_to(card)
    return tmp_path


def test_without_a_driver_card_and_port_come_from_the_kernel(system: Path) -> None:
    (facts,) = gpu_facts([gpu(0, 1)], FakeDriver(there=False), system)
    assert (facts["pcie_generation"], facts["pcie_width"], facts["numa_node"]) == (3, 8, 1)
    assert facts["pcie_bytes_per_second_each_way"] == 8 * 985e6


def test_unknown_facts_are_left_out() -> None:
    silent: Any = FakeDriver(there=False)
    assert gpu_facts([gpu(0, 1)], silent, Path("/nowhere")) == [
        {"name": "gpu:0", "model": "Some GPU", "memory_bytes": 2**34, "uuid": "GPU-1", "bus_id": "00000000:01:00.0"}
    ]
    assert links([gpu(0, 0), gpu(1, 1)], None, silent) == [{"from": "gpu:0", "to": "gpu:1"}]
