"""`abreast torture` of the README's script: killed and stopped on the devices, and its end compared with an undisturbed run."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu import programs
from benchmarks.gpu.place import Found, Place

_WORDS = ("--json", "--rounds", "1", "--seed", "1", "--faults", "kill,stop")


def run(place: Place) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        words = [*_WORDS, *programs.devices_of(place), *programs.digits("--epochs", "6")]
        code, said = programs.ended(programs.start(place, "torture", *words, folder=Path(folder)), place)
    return verdict(code, json.loads(said) if said.startswith("{") else {})


def verdict(code: int, found: dict[str, Any]) -> Found:
    if not found:
        return Found("", {}, (f"exit code {code}, and no JSON",))
    faults = {name: row for name, row in found["faults"].items() if name not in ("none", "end")}
    fired, recovered = (sum(row[name] for row in faults.values()) for name in ("fired", "recovered"))
    problems = found["problems"] or ([f"exit code {code}"] if code else [])
    return Found(f"{recovered} of {fired} faults recovered", found, tuple(problems))
