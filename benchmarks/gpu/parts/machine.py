"""`abreast machine`: the GPUs, their links, and the measured rates of copies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu.place import Found, Place

# Notes on what the machine lacks.
_SAID_AS_ABSENT = ("it needs at least 2 devices", "no backend is installed")
_LEAST_PINNED = 1e9  # bytes per second: one lane of PCIe 3


def run(place: Place) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "machine.json"
        backend = ["--backend", place.backend] if place.backend else []
        command = [sys.executable, "-m", "abreast", "machine", *backend, *place.command_options(), "--disk", folder]
        subprocess.run([*command, "--output", str(output)], check=True, timeout=place.left_seconds(), env=os.environ)
        facts: dict[str, Any] = json.loads(output.read_text())
    return Found(figure(facts), facts, tuple(problems(facts, place)), tuple(absent(facts, place)))


def figure(facts: dict[str, Any]) -> str:
    """Rates in GB/s: of copies to a GPU from pinned and from pageable memory, or of the host."""
    if facts["gpus"]:
        there = facts.get("host_to_device_bytes_per_second", {})
        return ", ".join(f"{kind} {_gigabytes(there[kind][0])}" for kind in ("pinned", "pageable") if there.get(kind))
    rates = {
        name: value for name, value in facts.items() if name.endswith("_bytes_per_second") and isinstance(value, float)
    }
    return ", ".join(f"{name.removesuffix('_bytes_per_second')} {_gigabytes(value)}" for name, value in rates.items())


def problems(facts: dict[str, Any], place: Place) -> list[str]:
    if place.simulated:
        can_sum = place.backend and place.devices > 1
        return ["all-reduce was not measured"] if can_sum and not facts.get("all_reduce") else []
    found = [] if facts["gpus"] else ["no GPU is in it"]
    found += [note for note in facts["notes"] if "not measured" in note and not note.endswith(_SAID_AS_ABSENT)]
    there = facts.get("host_to_device_bytes_per_second", {})
    for kind in ("pinned", "pageable"):
        found += [] if there.get(kind) else [f"copies from {kind} memory were not measured"]
    found += [f"pinned memory gives {rate:.0f} bytes/s" for rate in there.get("pinned", []) if rate < _LEAST_PINNED]
    return found


def absent(facts: dict[str, Any], place: Place) -> list[str]:
    """Values that need a second GPU, or a program that is missing here."""
    found = ["a GPU: copies, links"] if place.simulated else []
    found += [] if place.backend else ["a framework: all-reduce"]
    if not place.simulated and len(facts["gpus"]) < 2:
        found.append("a second GPU: links, copies between GPUs, all-reduce")
    return found + ([] if shutil.which("nvidia-smi") else ["nvidia-smi: the topology"])


def _gigabytes(rate: float) -> str:
    return f"{rate / 1e9:.1f} GB/s"
