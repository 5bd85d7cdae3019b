"""Lines as series: the steps of one side on 1, 2, 4, ... devices, with everything else the same; measured or predicted.

Not here: figures (`plots.py`) and pages (`report.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.bench import lines
from abreast.bench.line_check import wrong_with_prediction
from abreast.bench.noise import noise
from abreast.bench.run import key_of
from abreast.errors import DataError
from abreast.units import counted

_NAME_LETTERS = 50  # at most four bytes each; a file's name has at most 255 bytes
_PER_POINT = ("devices", "rows", "rows_per_device")  # these differ within a series


@dataclass(frozen=True)
class Point:
    """A step on a number of devices: its median, and its range (quartiles, or the interval of a prediction).

    `noise` is the reason why it is too noisy to be compared; empty for a steady one.
    """

    devices: int
    rows: float
    seconds: float
    low_seconds: float
    high_seconds: float
    parts: dict[str, float] | None = None
    line: dict[str, Any] | None = None
    noise: str = ""

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds

    @property
    def range_per_second(self) -> tuple[float, float]:
        return self.rows / self.high_seconds, self.rows / self.low_seconds


@dataclass(frozen=True)
class Series:
    """Points by number of devices. `side` names the way of training, such as `abreast` or `keras`."""

    side: str
    points: tuple[Point, ...]
    predicted: bool = False

    @property
    def name(self) -> str:
        return f"{self.side}, predicted" if self.predicted else self.side

    @property
    def base(self) -> Point | None:
        """The point on one device."""
        return next((point for point in self.points if point.devices == 1), None)

    def efficiency(self, point: Point) -> float | None:
        """Throughput on n devices over n times the throughput of the same side on one."""
        return None if self.base is None else point.rows_per_second / self.base.rows_per_second / point.devices


@dataclass(frozen=True)
class Comparison:
    """The series of one figure: one model, backend, machine and input."""

    facts: dict[str, Any]
    machine: dict[str, Any]
    series: tuple[Series, ...]

    @property
    def base_series(self) -> Series | None:
        """The series whose throughput on one device is a speed-up of 1: measured abreast, else the first that has one."""
        found = [series for series in self.series if series.base is not None]
        return min(found, key=lambda series: (series.side != "abreast", series.predicted), default=None)

    @property
    def base(self) -> Point | None:
        return None if self.base_series is None else self.base_series.base

    def speed_up(self, point: Point) -> float | None:
        """Throughput divided by the throughput of `base`: one scale for all sides."""
        return None if self.base is None else point.rows_per_second / self.base.rows_per_second

    @property
    def noisy(self) -> dict[str, str]:
        """The measurements that are too noisy to be compared, such as `keras on 2 devices`, with the reason."""
        return {
            f"{series.name} on {counted(point.devices, 'device')}": point.noise
            for series in self.series
            for point in series.points
            if point.noise
        }

    @property
    def title(self) -> str:
        """A title such as `resnet50 on jax, float32, 64 rows per device, input host`."""
        facts = self.facts
        rows = facts["rows_per_device"] if facts["scaling"] == "weak" else facts["rows"]
        words = f"{rows:,.10g} rows {'per device' if facts['scaling'] == 'weak' else 'in all'}"
        shape = "x".join(map(str, facts.get("input_shape", ())))
        parts = [facts["precision"], words, f"input {facts['input']}", *([f"rows of {shape}"] if shape else [])]
        return ", ".join([f"{facts['model']} on {facts['backend']}", *parts])

    @property
    def devices(self) -> str:
        gpus = self.machine.get("gpus")
        if self.facts["simulated"] or not gpus:
            return f"devices simulated on {self.machine['cpu']}, {counted(self.machine['cores'], 'core')}"
        return f"{gpus[0]}"

    @property
    def name(self) -> str:
        """A name for files."""
        facts = self.facts
        rows = f"{facts['rows_per_device']:g}-each" if facts["scaling"] == "weak" else f"{facts['rows']}-in-all"
        shape = ["x".join(map(str, facts["input_shape"]))] if "input_shape" in facts else []
        parts = [facts["model"], facts["backend"], facts["precision"], rows, facts["input"], *shape]
        return "".join(letter if letter.isalnum() else "-" for letter in "-".join(parts)).strip("-")[:_NAME_LETTERS]


def comparisons(found: Sequence[dict[str, Any]], predicted: Sequence[dict[str, Any]] = ()) -> list[Comparison]:
    """Comparisons of the newest line of each case, in the order of their first appearance."""
    newest = {(key_of(line["machine"]), key_of(line["case"])): line for line in found}
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in newest.values():
        groups.setdefault(json.dumps([_series_key(line["case"]), line["machine"]], sort_keys=True), []).append(line)
    return [_comparison(group, predicted) for group in groups.values()]


def read_predictions(path: Path) -> list[dict[str, Any]]:
    """Lines with a `case` (any fields of measured ones, `devices` among them), `median` seconds per step, and `interval`.

    Raises `DataError`.
    """
    if not path.is_file():
        raise DataError(
            f"there is no file {path} of predictions",
            "write one, with a line of JSON for each; or use `abreast plan --measured`",
        )
    found = lines.read(path)
    for number, line in enumerate(found, 1):
        if (wrong := wrong_with_prediction(line)) is not None:
            hint = "it needs case.devices, and median seconds per step above 0"
            raise DataError(f"{path}, line {number} is not a prediction: it {wrong}", hint)
    return found


def _series_key(case: dict[str, Any]) -> dict[str, Any]:
    """The case without the fields that differ within a figure."""
    left_out = {"side", "devices", "rows" if case["scaling"] == "weak" else "rows_per_device"}
    return {name: value for name, value in case.items() if name not in left_out}


def _comparison(group: Sequence[dict[str, Any]], predicted: Sequence[dict[str, Any]]) -> Comparison:
    first = group[0]
    by_side: dict[str, list[Point]] = {}
    for line in group:
        by_side.setdefault(line["case"]["side"], []).append(_point(line))
    series = [Series(side, _sorted(points)) for side, points in by_side.items()]
    forecast: dict[str, list[Point]] = {}
    for line in predicted:
        if _belongs(line["case"], first["case"]):
            forecast.setdefault(line["case"].get("side", "abreast"), []).append(_forecast(line, first["case"]))
    series += [Series(side, _sorted(points), predicted=True) for side, points in forecast.items()]
    return Comparison(first["case"], first["machine"], tuple(series))


def _sorted(points: Iterable[Point]) -> tuple[Point, ...]:
    return tuple(sorted({point.devices: point for point in points}.values(), key=lambda point: point.devices))


def _point(line: dict[str, Any]) -> Point:
    case, (low, high) = line["case"], line["quartiles"]
    parts = line.get("step_parts_seconds")
    return Point(case["devices"], case["rows"], line["median"], low, high, parts, line, noise(line))


def _belongs(case: dict[str, Any], measured: dict[str, Any]) -> bool:
    ignored = {"side", *_PER_POINT}
    return all(measured.get(name) == value for name, value in case.items() if name not in ignored)


def _forecast(line: dict[str, Any], measured: dict[str, Any]) -> Point:
    devices = line["case"]["devices"]
    rows = measured["rows"] if measured["scaling"] == "strong" else measured["rows_per_device"] * devices
    low, high = line.get("interval") or (line["median"], line["median"])
    return Point(
        devices, line["case"].get("rows", rows), line["median"], low, high, line.get("step_parts_seconds"), line
    )
