"""`abreast machine`: facts about this machine and the measured rates of its links, as JSON.

Keys include their units. Facts that are missing or could not be measured are left out; `notes` states the reasons. Not here:
descriptions of other machines (`plan/`). A framework runs only in a process of its own (`all_reduce_times.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from abreast import __version__, provenance
from abreast.cpu import num_cores
from abreast.device_list import CPU_DEVICES, Device, list_devices
from abreast.errors import AbreastError
from abreast.machine import gpu_copies, gpu_links, host_speeds, topology
from abreast.units import byte_count, duration

FORMAT = 1
_GPU_SIZES = [1 << power for power in range(12, 29, 2)]  # 4 KiB to 256 MiB
_CPU_SIZES = [1 << power for power in range(12, 25, 2)]  # 4 KiB to 16 MiB
_ALL_REDUCE_SECONDS = 600
Tell = Callable[[str], None]


def machine(
    folder: Path, backend: str | None = None, cpu_devices: int | None = None, *, measures: bool = True, tell: Tell
) -> dict[str, Any]:
    """All facts about this machine, and, with `measures`, the measured rates of its links. No `backend`: none is installed."""
    devices = list_devices({name: value for name, value in os.environ.items() if name != CPU_DEVICES})
    gpus = [device for device in devices if device.kind == "gpu"]
    found = _system() | _links(gpus)
    if not measures:
        return found
    parts: list[tuple[str, Callable[[], dict[str, Any]]]] = [
        ("memory", host_speeds.memory),
        ("loopback", host_speeds.loopback),
        ("disk", lambda: host_speeds.disk(folder)),
        ("copies of the GPUs", lambda: gpu_copies.measure(gpus, found["links"])),
        ("all-reduce", lambda: _all_reduce(gpus, backend, cpu_devices)),
    ]
    for name, measure in parts if gpus else [part for part in parts if part[0] != "copies of the GPUs"]:
        tell(f"measuring {name}")
        facts = measure()
        found["notes"] += facts.pop("notes", [])
        found |= facts
        for line in _said(facts):
            tell(line)
    return found


def _system() -> dict[str, Any]:
    return {
        "format": FORMAT,
        "made_by": f"abreast {__version__}",
        "date": provenance.now(),
        **{name: value for name, value in provenance.machine().items() if name != "gpus"},
        "numa_nodes": numa_nodes(),
        "notes": [],
    }


def numa_nodes(root: Path = Path("/")) -> list[dict[str, Any]]:
    """The number of each NUMA node, and its cores as the kernel lists them."""
    folders = sorted((root / "sys/devices/system/node").glob("node[0-9]*"), key=lambda folder: int(folder.name[4:]))
    return [{"node": int(folder.name[4:]), "cores": (folder / "cpulist").read_text().strip()} for folder in folders]


def _links(gpus: Sequence[Device]) -> dict[str, Any]:
    text = topology.topology_text() if gpus else None
    notes = []
    known = None
    if text is not None:
        try:
            known = topology.parse(text)
        except AbreastError as error:
            notes.append(f"the topology is not known: {error.message}")
    elif len(gpus) > 1:
        notes.append("the topology is not known: nvidia-smi printed none")
    found = {"gpus": gpu_links.gpu_facts(gpus), "links": gpu_links.links(gpus, known)}
    return found | ({"topology_text": text} if text is not None else {}) | ({"notes": notes} if notes else {})


def _all_reduce(gpus: Sequence[Device], backend: str | None, cpu_devices: int | None) -> dict[str, Any]:
    if backend is None:
        return {"notes": ["all-reduce was not measured: no backend is installed"]}
    simulated = cpu_devices is not None or not gpus
    most = cpu_devices or len(gpus) or max(2, min(4, num_cores()))
    if most < 2:
        return {"notes": ["all-reduce was not measured: it needs at least 2 devices"]}
    counts = sorted({*(1 << power for power in range(1, most.bit_length())), most})
    request = {"devices": counts, "sizes": _CPU_SIZES if simulated else _GPU_SIZES, "simulated": simulated}
    command = [sys.executable, "-m", "abreast.machine.all_reduce_times", json.dumps(request)]
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_ALL_REDUCE_SECONDS, check=True
        )
    except subprocess.TimeoutExpired:
        return {"notes": [f"all-reduce was not measured: it did not end within {_ALL_REDUCE_SECONDS} s"]}
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or [""])[-1]
        return {"notes": [f"all-reduce was not measured: {last[:300]}"]}
    notes = ["all-reduce was measured on devices simulated on the CPU"] if simulated else []
    return {"all_reduce": json.loads(done.stdout), "all_reduce_simulated": simulated, "notes": notes}


def _said(facts: dict[str, Any]) -> list[str]:
    """The measured facts as lines to print."""
    lines = []
    for name, value in facts.items():
        if isinstance(value, float):
            words = f"{byte_count(value)}/s" if name.endswith("_per_second") else duration(value)
            lines.append(
                f"  {name.removesuffix('_bytes_per_second').removesuffix('_seconds').replace('_', ' ')}: {words}"
            )
    for entry in facts.get("all_reduce", []):
        rate = byte_count(entry["bus_bytes_per_second"])
        what = f"all-reduce of {byte_count(entry['bytes'])} over {entry['devices']}"
        lines.append(f"  {what}: {duration(entry['seconds'])}, bus {rate}/s")
    return lines
