"""Which devices are listed, with a made-up driver and made-up system files."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from abreast.device_list import Device, list_devices
from abreast.errors import DeviceError


@dataclass
class Card:
    uuid: str
    instances: list[Card] = field(default_factory=list)
    memory_bytes: int | None = 80 * 2**30


class FakeNvml:
    """NVML's functions over a list of cards; `None` is a machine without the driver."""

    class NVMLError(Exception):
        pass

    def __init__(self, cards: list[Card] | None) -> None:
        self.cards = cards
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if self.cards is None:
            raise self.NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards or [])

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:  # noqa: N802
        assert self.cards is not None
        return self.cards[index]

    def nvmlDeviceGetPciInfo(self, card: Card) -> Any:  # noqa: N802
        return SimpleNamespace(busId=f"00000000:{self.nvmlDeviceGetIndex(card):02X}:00.0")

    def nvmlDeviceGetIndex(self, card: Card) -> int:  # noqa: N802
        return [c.uuid for c in self.cards or []].index(card.uuid) + 1

    def nvmlDeviceGetUUID(self, card: Card) -> str:  # noqa: N802
        return card.uuid

    def nvmlDeviceGetName(self, card: Card) -> str:  # noqa: N802
        return "NVIDIA H200"

    def nvmlDeviceGetMemoryInfo(self, card: Card) -> Any:  # noqa: N802
        if card.memory_bytes is None:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(total=card.memory_bytes)

    def nvmlDeviceGetMigMode(self, card: Card) -> list[int]:  # noqa: N802
        if card.uuid == "GPU-too-old":
            raise self.NVMLError("Not Supported")
        return [int(bool(card.instances))] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, card: Card) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: Card, index: int) -> Card:  # noqa: N802
        if index == 0 or index > len(card.instances):
            raise self.NVMLError("Not Found")  # place 0 is empty
        return card.instances[index - 1]


def cards(*uuids: str) -> list[Card]:
    return [Card(uuid) for uuid in uuids or ("GPU-aa", "GPU-ab", "GPU-b", "GPU-c")]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(cards())
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def seen(visible: str | None = None) -> list[str | None]:
    return [device.uuid for device in list_devices({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})]


def test_an_nvidia_card_is_listed_with_all_facts_of_the_driver(nvml: FakeNvml) -> None:
    assert list_devices({})[1] == Device("gpu:1", "gpu", 1, "NVIDIA H200", 80 * 2**30, "GPU-ab", "00000000:02:00.0")
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, ["GPU-aa", "GPU-ab", "GPU-b", "GPU-c"]),
        ("2,0", ["GPU-b", "GPU-aa"]),
        (" 1 , 3", ["GPU-ab", "GPU-c"]),
        ("GPU-ab,GPU-b", ["GPU-ab", "GPU-b"]),
        ("0,9,1", ["GPU-aa"]),  # stops at the first that is not there
        ("1,-1,2", ["GPU-ab"]),
        ("GPU-a,0", [None]),  # two cards begin so
        ("0,0", [None]),
        ("", [None]),
        ("-1", [None]),
        ("NoDevFiles", [None]),
    ],
)
def test_cuda_visible_devices_means_what_it_means_to_cuda(
    nvml: FakeNvml, visible: str | None, uuids: list[str | None]
) -> None:
    assert seen(visible) == uuids  # [None] is the CPU


def test_visible_cards_are_numbered_anew(nvml: FakeNvml) -> None:
    assert [device.name for device in list_devices({"CUDA_VISIBLE_DEVICES": "3,1"})] == ["gpu:0", "gpu:1"]


def test_one_instance_of_a_divided_card_is_seen(nvml: FakeNvml) -> None:
    nvml.cards = [Card("GPU-aa", [Card("MIG-x"), Card("MIG-y")]), Card("GPU-ab", [Card("MIG-z")])]
    nvml.nvmlDeviceGetPciInfo = lambda card: SimpleNamespace(busId="0")  # type: ignore[method-assign]
    assert seen() == ["MIG-x"]
    assert seen("MIG-y,MIG-z") == ["MIG-y"]
    assert seen("1") == ["MIG-z"]
    assert seen("MIG-nothing") == [None]


def test_memory_that_the_driver_does_not_report_is_none(nvml: FakeNvml) -> None:
    nvml.cards = [Card("GPU-too-old", memory_bytes=None)]
    assert list_devices({})[0].memory_bytes is None


def test_simulated_cpu_devices_hide_the_accelerators(nvml: FakeNvml) -> None:
    devices = list_devices({"ABREAST_CPU_DEVICES": "3"})
    assert [device.name for device in devices] == ["cpu:0", "cpu:1", "cpu:2"]
    assert devices[0].model.endswith("shared by 3 simulated devices")


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_a_wrong_number_of_simulated_devices_is_named(text: str) -> None:
    with pytest.raises(
        DeviceError, match=f"ABREAST_CPU_DEVICES='{text}' is not a number of devices\nhint: set it to 1"
    ):
        list_devices({"ABREAST_CPU_DEVICES": text})


@pytest.fixture
def no_nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(None))


@pytest.mark.usefixtures("no_nvidia")
def test_a_machine_without_accelerators_has_one_cpu_device(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("1048576\n")
    (device,) = list_devices({}, tmp_path)
    assert (device.name, device.memory_bytes) == ("cpu:0", 1048576)
    assert device.model.startswith("Some CPU, ")


@pytest.fixture
def amd(tmp_path: Path, no_nvidia: None) -> Path:
    """A CPU node and two MI300X, as the kernel shows them."""
    gpu = "simd_count 1216\ngfx_target_version 90402\ndomain 0\nunique_id {}\nlocation_id {}\n"
    texts = ["simd_count 0\ngfx_target_version 0\n", gpu.format(17, 0x0C00), gpu.format(18, 0x2F00)]
    for index, text in enumerate(texts):
        node = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{index}"
        node.mkdir(parents=True)
        (node / "properties").write_text(text)
    card = tmp_path / "sys/bus/pci/devices/0000:0c:00.0"
    card.mkdir(parents=True)
    for name, text in {"vendor": "0x1002", "mem_info_vram_total": "206141652992", "product_name": "MI300X"}.items():
        (card / name).write_text(text + "\n")
    return tmp_path


def test_amd_cards_are_read_from_the_kernel(amd: Path) -> None:
    assert list_devices({}, amd) == (
        Device("gpu:0", "gpu", 0, "MI300X", 206141652992, "GPU-0000000000000011", "0000:0c:00.0"),
        Device("gpu:1", "gpu", 1, "AMD gfx942", None, "GPU-0000000000000012", "0000:2f:00.0"),
    )


@pytest.mark.parametrize("visible", ["1", "GPU-0000000000000012", "1,7,0"])
def test_rocm_variables_choose_amd_cards(amd: Path, visible: str) -> None:
    for variable in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        assert [device.bus_id for device in list_devices({variable: visible}, amd)] == ["0000:2f:00.0"]


def test_listing_devices_loads_no_framework() -> None:
    code = (
        "import sys, abreast.device_list; abreast.device_list.list_devices();"
        "print([m for m in ('jax', 'tensorflow', 'torch', 'keras', 'numpy') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert output == "[]\n"
