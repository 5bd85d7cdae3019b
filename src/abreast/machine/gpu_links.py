"""GPUs and their links (PCIe, NVLink, NUMA), as the driver and the system report them. Nothing is measured."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from abreast.device_list import Device
from abreast.machine.topology import Links, num_nvlinks
from abreast.system_files import text_of

# One lane, one way, after the line code. Source: PCI-SIG, base specifications 1 to 6.
_LANE_BYTES_PER_SECOND = {1: 250e6, 2: 500e6, 3: 985e6, 4: 1969e6, 5: 3938e6, 6: 7563e6}
_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}  # by GT/s
# One link, one way. Source: NVIDIA's data sheets of P100, V100, A100, H100, B200.
_NVLINK_BYTES_PER_SECOND = {1: 20e9, 2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9}
_MOST_NVLINKS = 18


def gpu_facts(devices: Sequence[Device], nvml: Any = None, root: Path = Path("/")) -> list[dict[str, Any]]:
    """One dictionary per GPU, without the facts that neither driver nor system reports."""
    with _opened(nvml) as library:
        return [_facts(device, library, root) for device in devices if device.kind == "gpu"]


def links(devices: Sequence[Device], topology: Links | None, nvml: Any = None) -> list[dict[str, Any]]:
    """One dictionary per pair of GPUs: its class as in `nvidia-smi topo -m`, its NVLinks, and peer access.

    `topology` numbers all GPUs of the machine by bus id, not only those that this process sees.
    """
    gpus = [device for device in devices if device.kind == "gpu"]
    with _opened(nvml) as library:
        places = _places(gpus, library)
        found = []
        for first, second in itertools.combinations(range(len(gpus)), 2):
            entry: dict[str, Any] = {"from": gpus[first].name, "to": gpus[second].name}
            pair = places.get(first), places.get(second)
            if topology is not None and None not in pair and pair in topology:
                entry["class"] = topology[pair]
                entry["num_nvlinks"] = num_nvlinks(topology[pair])
            peer = _peer_access(gpus[first], gpus[second], library)
            found.append(entry | ({} if peer is None else {"peer_access": peer}))
    return found


def _facts(device: Device, nvml: Any, root: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": device.name,
        "model": device.model,
        "memory_bytes": device.memory_bytes,
        "uuid": device.uuid,
        "bus_id": device.bus_id,
    }
    facts |= _pcie_from_system(device, root) | _facts_from_driver(device, nvml)
    lane = _LANE_BYTES_PER_SECOND.get(facts.get("pcie_generation", 0))
    if lane is not None and facts.get("pcie_width"):
        facts["pcie_bytes_per_second_each_way"] = lane * facts["pcie_width"]
    return {name: value for name, value in facts.items() if value is not None}


def _pcie_from_system(device: Device, root: Path) -> dict[str, Any]:
    """The PCIe link as the kernel reports it: its present width (a riser may have only one lane), and its top speed."""
    if device.bus_id is None:
        return {}
    domain, _, rest = device.bus_id.lower().partition(":")
    folder = root / "sys/bus/pci/devices" / f"{domain[-4:]}:{rest}"
    # The folder is a symbolic link, so its parent is the port that the card is plugged into.
    speeds = [text_of(folder / name).partition(" ")[0] for name in ("max_link_speed", "../max_link_speed")]
    generations = [_GENERATIONS[speed] for speed in speeds if speed in _GENERATIONS]
    width, node = text_of(folder / "current_link_width"), text_of(folder / "numa_node")
    return {
        "pcie_generation": min(generations, default=None),
        "pcie_width": int(width) if width.isdecimal() and int(width) else None,
        "numa_node": int(node) if node.isdecimal() else None,
    }


def _facts_from_driver(device: Device, nvml: Any) -> dict[str, Any]:
    handle = _handle(device, nvml)
    if handle is None:
        return {}
    capability = _ask(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    count, version = _nvlinks(handle, nvml)
    speed = _NVLINK_BYTES_PER_SECOND.get(version or 0)
    facts = {
        "pcie_generation": _ask(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", handle),  # the lower one of GPU and slot
        "pcie_width": _ask(nvml, "nvmlDeviceGetCurrPcieLinkWidth", handle),
        "compute_capability": None if capability is None else ".".join(map(str, capability)),
        "memory_bytes_per_second": _memory_rate(handle, nvml),
        "num_nvlinks": count,
        "nvlink_version": version,
        "nvlink_bytes_per_second_each_way": count * speed if count and speed else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _memory_rate(handle: Any, nvml: Any) -> float | None:
    """Peak memory bandwidth in bytes per second: twice the memory clock (double data rate) times the bus width."""
    megahertz = _ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM)
    bits = _ask(nvml, "nvmlDeviceGetMemoryBusWidth", handle)
    return 2 * 1e6 * megahertz * bits / 8 if megahertz and bits else None


def _nvlinks(handle: Any, nvml: Any) -> tuple[int, int | None]:
    """Number of active NVLinks, and their version."""
    up = [link for link in range(_MOST_NVLINKS) if _ask(nvml, "nvmlDeviceGetNvLinkState", handle, link) == 1]
    return len(up), _ask(nvml, "nvmlDeviceGetNvLinkVersion", handle, up[0]) if up else None


def _peer_access(first: Device, second: Device, nvml: Any) -> bool | None:
    handles = _handle(first, nvml), _handle(second, nvml)
    if None in handles:
        return None
    status = _ask(nvml, "nvmlDeviceGetP2PStatus", *handles, nvml.NVML_P2P_CAPS_INDEX_READ)
    return None if status is None else bool(status == nvml.NVML_P2P_STATUS_OK)


def _places(gpus: Sequence[Device], nvml: Any) -> dict[int, int]:
    """The driver's index, which the topology uses, by the index in `gpus`."""
    found = {}
    for place, device in enumerate(gpus):
        handle = _handle(device, nvml)
        index = None if handle is None else _ask(nvml, "nvmlDeviceGetIndex", handle)
        if index is not None:
            found[place] = int(index)
    return found


def _handle(device: Device, nvml: Any) -> Any:
    if nvml is None or device.uuid is None:
        return None
    return _ask(nvml, "nvmlDeviceGetHandleByUUID", device.uuid)


def _ask(nvml: Any, question: str, *arguments: Any) -> Any:
    try:
        return getattr(nvml, question)(*arguments)
    except nvml.NVMLError:
        return None  # a GPU of another vendor, or one without this feature


@contextlib.contextmanager
def _opened(nvml: Any) -> Iterator[Any]:
    """The driver's library, or None without a driver."""
    if nvml is None:
        import pynvml

        nvml = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield None
        return
    try:
        yield nvml
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()
