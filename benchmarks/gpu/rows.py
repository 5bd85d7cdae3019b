"""`Row`: the result of one part, also as a JSON line; and the figures of the CPU in earlier lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from abreast.bench import lines as files
from benchmarks import lines

BENCHMARK = "gpu"
Status = Literal["passed", "failed", "missing", "left out"]
Key = tuple[str, str, int]


@dataclass(frozen=True)
class Row:
    """`why` says what failed, is missing, or was left out; `absent` says what a part could not try."""

    part: str
    backend: str
    devices: int
    kind: str  # "gpu", or "cpu" for simulated devices
    status: Status
    figure: str = ""
    why: str = ""
    absent: Sequence[str] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def key(self) -> Key:
        return self.part, self.backend, self.devices


def append(path: Path, row: Row, origin: dict[str, Any]) -> None:
    """Add the row to a file as a line with its provenance."""
    values = asdict(row)
    case = {name: values.pop(name) for name in ("part", "backend", "devices", "kind")}
    path.parent.mkdir(parents=True, exist_ok=True)
    files.append(path, [{"benchmark": BENCHMARK, "case": case, **values, **origin}])


def figures_on_the_cpu(found: Iterable[dict[str, Any]]) -> dict[Key, str]:
    """The newest figure of each part that passed on simulated devices."""
    cases = [(line["case"], line) for line in found if line["case"]["kind"] == "cpu" and line["status"] == "passed"]
    return {(case["part"], case["backend"], case["devices"]): line["figure"] for case, line in cases}


def kept(*paths: Path) -> list[dict[str, Any]]:
    """All lines of some files, and of the benchmarks' own file."""
    own = lines.RESULTS / f"{BENCHMARK}.jsonl"
    return [line for path in dict.fromkeys((own, *paths)) for line in files.read(path)]
