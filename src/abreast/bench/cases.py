"""`Case`: one measurement as data, checked before anything runs; and the parsers of option texts that describe it.

Not here: cases in a file (`case_file.py`), and running (`run.py`, `cell.py`). No framework is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from abreast.backend.registry import BACKENDS, KERAS_HAS_A_WAY
from abreast.bench import models
from abreast.device_request import MOST_SIMULATED
from abreast.errors import DataError
from abreast.nearest import did_you_mean

PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
RIVALS = ("keras", "native")
# Settings of `DataParallel`, each with the function that parses its value.
_SETTINGS: dict[str, Any] = {
    "batch_norm": lambda text: _one_of("batch_norm", text, ("global", "local")),
    "check_numerics": lambda text: _one_of("check_numerics", text, ("true", "false")) == "true",
    "prefetch": lambda text: _whole("prefetch", text, 0),
    "prefetch_bytes": lambda text: _whole("prefetch_bytes", text, 1),
}


@dataclass(frozen=True)
class Case:
    """One model on one number of devices. Within a series, only `devices` and the rows that follow from it differ."""

    model: str
    backend: str
    devices: int
    rows: int  # of the global batch
    scaling: str = "weak"  # the same rows per device on any number of devices; "strong": the same rows in all
    precision: str = "float32"
    input: str = "host"
    input_shape: tuple[int, ...] | None = None
    simulated: bool = False

    @staticmethod
    def of(facts: Mapping[str, Any]) -> Case:
        """A case from its fields in JSON."""
        shape = facts["input_shape"]
        return Case(**{**facts, "input_shape": None if shape is None else tuple(shape)})

    def key(self, side: str) -> dict[str, Any]:
        """The fields that identify a measurement, as they are in its line."""
        facts = asdict(self) | {"side": side, "rows_per_device": self.rows / self.devices}
        if self.input_shape is not None:
            facts["input_shape"] = list(self.input_shape)
        return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True)
class Cell:
    """A case with the sides that take turns in one process: `abreast`, `abreast prefetch=0`, `keras`, `native`."""

    case: Case
    sides: tuple[str, ...]
    rounds: int = 5
    steps: int | None = None  # per turn; None: for half a second
    warm_up: int = 3  # steps dropped at the beginning of each turn

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Cell:
        facts = json.loads(text)
        return Cell(**{**facts, "case": Case.of(facts["case"]), "sides": tuple(facts["sides"])})


@dataclass(frozen=True)
class Request:
    """A user's request: one model, and lists of the values that vary. The command line and `case_file.py` make it."""

    model: str
    backends: Sequence[str]
    devices: Sequence[int]
    batch: int | None = None  # rows per device
    global_batch: int | None = None
    precision: Sequence[str] = ("float32",)
    input: str = "host"
    input_shape: tuple[int, ...] | None = None
    variants: Sequence[str] = ()
    against: Sequence[str] = ()

    def cells(self, *, simulated: bool, rounds: int, steps: int | None, warm_up: int) -> list[Cell]:
        """One cell per backend, precision and number of devices. Raises `DataError` or `ModelError` for an invalid request."""
        model = models.resolve(self.model)
        self._check()
        return [
            Cell(
                self._case(model, backend, devices, precision, simulated),
                self._sides(backend, devices),
                rounds,
                steps,
                warm_up,
            )
            for backend in self.backends
            for precision in self.precision
            for devices in self.devices
        ]

    def absent(self) -> list[str]:
        """A sentence for each side that is left out because it does not exist."""
        if "keras" not in self.against or max(self.devices) == 1:
            return []
        without = [name for name in self.backends if name not in KERAS_HAS_A_WAY]
        return [f"Keras does not train on several devices on {name}: it is measured on one" for name in without]

    def _sides(self, backend: str, devices: int) -> tuple[str, ...]:
        rivals = [name for name in self.against if name != "keras" or devices == 1 or backend in KERAS_HAS_A_WAY]
        variants = dict.fromkeys(f"abreast {checked_variant(text)}" for text in self.variants)
        return ("abreast", *variants, *dict.fromkeys(rivals))

    def _case(self, model: str, backend: str, devices: int, precision: str, simulated: bool) -> Case:
        rows = self.global_batch or devices * (self.batch or models.default_rows(model))
        scaling = "strong" if self.global_batch else "weak"
        return Case(model, backend, devices, rows, scaling, precision, self.input, self.input_shape, simulated)

    def _check(self) -> None:
        if self.batch is not None and self.global_batch is not None:
            raise DataError(
                f"a batch of {self.batch} rows per device and a global batch of {self.global_batch}",
                "give one: --batch N grows with the devices, --global-batch N does not",
            )
        for name, value in (("batch", self.batch), ("global batch", self.global_batch)):
            if value is not None and value < 1:
                raise DataError(f"a {name} of {value} rows is not allowed", "a batch has at least 1 row")
        for count in self.devices:
            if count < 1:
                raise DataError(f"{count} devices are not allowed", "ask for at least 1")
            if self.global_batch is not None and self.against and self.global_batch % count:
                raise DataError(
                    f"a global batch of {self.global_batch} rows does not divide by {count} devices, and rivals need that",
                    "take another batch, or leave out --against: abreast takes any batch",
                )
        words = {
            "precision": (PRECISIONS, self.precision),
            "rival": (RIVALS, self.against),
            "backend": (BACKENDS, self.backends),
        }
        for name, (known, given) in words.items():
            for each in given:
                if each not in known:
                    raise DataError(f"there is no {name} {each!r}", did_you_mean(each, known))
        if "native" in self.against and "float16" in self.precision:
            raise DataError(
                "the native loops do not scale losses, as float16 needs",
                "compare with --precision bfloat16, or leave out native",
            )
        check_input(self.input, self.against)


def check_input(text: str, against: Sequence[str] = ()) -> None:
    """Raise `DataError` or `ModelError` unless it is `host`, `device`, a folder of records, or `module:function`."""
    if text in ("host", "device"):
        return
    if "native" in against:
        raise DataError(
            f"the native loops take synthetic input only, not {text}", "leave out native, or give --input host"
        )
    if ":" in text and not Path(text).exists():
        models.check_module(text, "a source")
    elif not (Path(text) / "manifest.json").is_file():
        what = "a folder without a manifest.json" if Path(text).is_dir() else "no folder"
        hint = "give host, device, a folder that `abreast pack` made, or module:function that returns a source"
        raise DataError(f"--input {text}: {what}", hint)


def checked_variant(text: str) -> str:
    """The settings of `prefetch=0,batch_norm=local` in one spelling. Raises `DataError`."""
    return ",".join(f"{name}={part}" for name, part, _ in _settings(text))


def variant_settings(side: str) -> dict[str, Any]:
    """The arguments of `DataParallel` in the name of a side of abreast."""
    return {name: value for name, _, value in _settings(side.removeprefix("abreast").strip())}


def _settings(text: str) -> list[tuple[str, str, Any]]:
    found = []
    for part in filter(None, text.split(",")):
        name, equals, value = part.strip().partition("=")
        name = name.strip().lower().replace("-", "_")
        if name not in _SETTINGS or not equals:
            hint = f"settings are {', '.join(_SETTINGS)}, as in prefetch=0,batch_norm=local"
            raise DataError(f"{part.strip()!r} is not a setting of abreast", hint)
        found.append((name, value.strip().lower(), _SETTINGS[name](value.strip().lower())))
    return sorted(found, key=lambda setting: setting[0])


def counts(text: str, what: str = "devices") -> tuple[int, ...]:
    """The numbers in `1,2,4` or `1-4`, sorted, each once. Raises `DataError`."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise DataError(
                f"--{what} {text}: {part.strip()!r} is not a number", f"write 1,2,4 or 1-4: numbers of {what}"
            )
        if int(last or first) > MOST_SIMULATED:
            raise DataError(
                f"--{what} {text}: {int(last or first):,} are too many", f"give numbers up to {MOST_SIMULATED:,}"
            )
        found.update(range(int(first), int(last or first) + 1))
    if not found or min(found) < 1:
        raise DataError(f"--{what} {text} is not allowed", "numbers of devices are 1 or more")
    return tuple(sorted(found))


def doubling(most: int) -> tuple[int, ...]:
    """1, 2, 4, ... and `most`."""
    return (*(1 << power for power in range(most.bit_length()) if 1 << power < most), most)


def shape_of(text: str) -> tuple[int, ...]:
    """The shape in `32,32,3` or `32x32x3`. Raises `DataError`."""
    parts = text.lower().replace("x", ",").split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise DataError(f"--input-shape {text} is no shape", "write the sizes of one row, as 224,224,3")
    return tuple(map(int, parts))


def _one_of(name: str, text: str, known: Iterable[str]) -> str:
    if text not in known:
        raise DataError(f"{name}={text} is not allowed", f"give {' or '.join(known)}")
    return text


def _whole(name: str, text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise DataError(f"{name}={text} is not allowed", f"give a whole number, at least {least}")
    return int(text)
