"""The devices of this machine, as `abreast devices` lists them, and facts about each. `devices_command.py` prints them.

It asks the driver (NVML) and reads the system's files, so no framework starts and no device memory is used. Not here: the
devices that a backend can use (`Backend.device_names`), and the choice of some of them (`device_request.py`).
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.cpu import cpu_memory_bytes, cpu_model, num_cores
from abreast.errors import DeviceError
from abreast.system_files import text_of

# Set by `use_cpu_devices`; workers inherit it.
CPU_DEVICES = "ABREAST_CPU_DEVICES"

_AMD_VENDOR = "0x1002"


@dataclass(frozen=True)
class Device:
    """One device as the system describes it; a fact that the system does not report is None."""

    name: str
    kind: str
    index: int
    model: str
    memory_bytes: int | None = None
    uuid: str | None = None
    bus_id: str | None = None


def list_devices(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> tuple[Device, ...]:
    """Every accelerator that `environ` makes visible to this process; if there is none, its CPU devices.

    `ABREAST_CPU_DEVICES` hides the accelerators, as simulated CPU devices do in a framework. If GPU models differ, CUDA
    numbers the fastest GPU first; then this list has CUDA's order only under `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    """
    environ = os.environ if environ is None else environ
    if (simulated := simulated_cpu_devices(environ)) is not None:
        return _cpu_devices(simulated, root)
    return _nvidia_devices(environ) or _amd_devices(environ, root) or _apple_devices() or _cpu_devices(None, root)


def list_nvidia_devices(environ: Mapping[str, str] | None = None) -> tuple[Device, ...]:
    """Every visible NVIDIA device; none if the CPU simulates devices."""
    environ = os.environ if environ is None else environ
    return () if environ.get(CPU_DEVICES) else _nvidia_devices(environ)


def _nvidia_devices(environ: Mapping[str, str]) -> tuple[Device, ...]:
    import pynvml  # imported late: it would take a tenth of the time allowed for `import abreast`

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()  # no NVIDIA driver
    try:
        seen = _cuda_visible(list(_nvidia_boards(pynvml)), environ.get("CUDA_VISIBLE_DEVICES"))
        return tuple(_nvidia_device(pynvml, index, board) for index, board in enumerate(seen))
    finally:
        pynvml.nvmlShutdown()


@dataclass(frozen=True)
class _Board:
    """An NVML handle of a GPU, with the GPU's MIG instances."""

    handle: Any
    uuid: str
    bus_id: str
    instances: tuple[_Board, ...] = ()


def _nvidia_boards(nvml: Any) -> Iterator[_Board]:
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        bus_id = nvml.nvmlDeviceGetPciInfo(handle).busId
        instances = tuple(
            _Board(instance, nvml.nvmlDeviceGetUUID(instance), bus_id) for instance in _mig_instances(nvml, handle)
        )
        yield _Board(handle, nvml.nvmlDeviceGetUUID(handle), bus_id, instances)


def _mig_instances(nvml: Any, handle: Any) -> Iterator[Any]:
    try:
        count = nvml.nvmlDeviceGetMaxMigDeviceCount(handle) if nvml.nvmlDeviceGetMigMode(handle)[0] else 0
    except nvml.NVMLError:
        return  # a GPU that does not support MIG
    for index in range(count):
        try:
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError:
            continue  # there may be gaps in the numbering of instances


def _cuda_visible(boards: Sequence[_Board], visible: str | None) -> list[_Board]:
    """The devices that CUDA makes visible for a value of `CUDA_VISIBLE_DEVICES`.

    CUDA stops at the first invalid entry. A repeated entry hides all devices. A process gets at most one MIG instance.
    Source: CUDA C++ Programming Guide, "CUDA Environment Variables", and PyTorch's `torch.cuda._parse_visible_devices`.
    """
    if visible is None:
        chosen: list[_Board] = list(boards)
    else:
        chosen = []
        for entry in visible.split(","):
            board = _cuda_device(boards, entry.strip())
            if board is None:
                break
            chosen.append(board)
        if len({board.uuid for board in chosen}) < len(chosen):
            return []
    chosen = [board.instances[0] if board.instances else board for board in chosen]
    instances = [board for board in chosen if board.uuid.startswith("MIG-")]
    return instances[:1] or chosen


def _cuda_device(boards: Sequence[_Board], entry: str) -> _Board | None:
    if entry.isdecimal():
        return boards[int(entry)] if int(entry) < len(boards) else None
    if entry.startswith("GPU-"):
        matches = [board for board in boards if board.uuid.startswith(entry)]
        return matches[0] if len(matches) == 1 else None
    if entry.startswith("MIG-"):
        return next((i for board in boards for i in board.instances if i.uuid.startswith(entry)), None)
    return None


def _nvidia_device(nvml: Any, index: int, board: _Board) -> Device:
    try:
        memory_bytes = int(nvml.nvmlDeviceGetMemoryInfo(board.handle).total)
    except nvml.NVMLError:
        memory_bytes = None  # memory shared with the CPU, as on Jetson and GB10
    model = nvml.nvmlDeviceGetName(board.handle)
    return Device(f"gpu:{index}", "gpu", index, model, memory_bytes, board.uuid, board.bus_id)


def _amd_devices(environ: Mapping[str, str], root: Path) -> tuple[Device, ...]:
    """The GPUs that the kernel's compute driver (KFD) offers to ROCm, with details from the graphics driver."""
    nodes = sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("*"), key=lambda node: int(node.name))
    properties = [dict(line.split(maxsplit=1) for line in text_of(node / "properties").splitlines()) for node in nodes]
    gpus = [
        node for node in properties if int(node.get("simd_count", "0")) and int(node.get("gfx_target_version", "0"))
    ]
    for variable in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if variable in environ:
            gpus = _rocm_visible(gpus, environ[variable])
    return tuple(_amd_device(index, gpu, root) for index, gpu in enumerate(gpus))


def _rocm_visible(gpus: list[dict[str, str]], visible: str) -> list[dict[str, str]]:
    chosen = []
    for entry in visible.split(","):
        text = entry.strip()
        if text.isdecimal() and int(text) < len(gpus):
            chosen.append(gpus[int(text)])
        elif matches := [gpu for gpu in gpus if _amd_uuid(gpu) == text]:
            chosen.append(matches[0])
        else:
            break
    return chosen


def _amd_device(index: int, gpu: Mapping[str, str], root: Path) -> Device:
    location = int(gpu.get("location_id", "0"))  # bus, device and function in 16 bits, as in a PCI address
    domain = int(gpu.get("domain", "0"))
    bus_id = f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"
    card = root / "sys/bus/pci/devices" / bus_id
    memory = text_of(card / "mem_info_vram_total") if text_of(card / "vendor") == _AMD_VENDOR else ""
    model = text_of(card / "product_name") or f"AMD {_gfx_name(int(gpu['gfx_target_version']))}"
    return Device(f"gpu:{index}", "gpu", index, model, int(memory) if memory else None, _amd_uuid(gpu), bus_id)


def _amd_uuid(gpu: Mapping[str, str]) -> str | None:
    number = int(gpu.get("unique_id", "0"))
    return f"GPU-{number:016x}" if number else None


def _gfx_name(version: int) -> str:
    """The name of a `gfx_target_version`: 90402 (major 9, minor 4, step 2) is `gfx942`. Minor and step become hexadecimal."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _apple_devices() -> tuple[Device, ...]:
    if platform.system() != "Darwin" or platform.machine() != "arm64":
        return ()
    keys = ["machdep.cpu.brand_string", "hw.memsize"]
    lines = subprocess.run(["sysctl", "-n", *keys], capture_output=True, text=True, timeout=10).stdout.splitlines()
    model, memory = lines if len(lines) == 2 else ("Apple GPU", "")
    return (Device("gpu:0", "gpu", 0, model, int(memory) if memory else None),)


def simulated_cpu_devices(environ: Mapping[str, str] | None = None) -> int | None:
    """The number of devices that `ABREAST_CPU_DEVICES` asks for; None without it. Raises `DeviceError` if it is not a number."""
    text = (os.environ if environ is None else environ).get(CPU_DEVICES)
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise DeviceError(f"{CPU_DEVICES}={text!r} is not a number of devices", "set it to 1 or more, or unset it")
    return int(text)


def _cpu_devices(simulated: int | None, root: Path) -> tuple[Device, ...]:
    count = simulated or 1
    model = f"{cpu_model(root)}, {num_cores()} cores{f', shared by {count} simulated devices' if simulated else ''}"
    memory_bytes = cpu_memory_bytes(root)
    return tuple(Device(f"cpu:{index}", "cpu", index, model, memory_bytes) for index in range(count))
