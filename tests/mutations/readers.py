"""Every file that a command takes from a user: a valid sample, and the way to read it, which raises `AbreastError` at most."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast import cli
from abreast.errors import AbreastError, DataError
from abreast.records import Records, verify
from abreast.records.decoding.images import read_picture
from abreast.records.packing.prepare import Recipe, prepare
from abreast.records.sources.choose import source_of
from tests.bench.samples import predictions, scaling
from tests.machine.test_topology import DGX_1
from tests.mutations.mutate import mutated_bytes, mutated_json, mutated_lines
from tests.plan.test_measured_machine import gpus, told
from tests.records.pieces import class_folder, file_of, photo
from tests.records.shards import sources

Draw = random.Random


@dataclass(frozen=True)
class Reader:
    """`write` puts a mutated file somewhere below a folder; `read` reads it as the command does."""

    write: Callable[[Path, Draw], Path]
    read: Callable[[Path], Any]


def readers(folder: Path) -> Mapping[str, Reader]:
    """All readers, by name; `folder` keeps the valid samples."""
    found = {f"image {kind.lower()}": _of_bytes(file_of(photo(24, 31), kind), _picture) for kind in _IMAGES}
    found |= {kind: _of_source(path) for kind, path in sources(folder).items() if kind not in ("arrays", "folder")}
    found["csv"] = _of_bytes(_csv(folder), _items, "a.csv")
    found["packed, verified"] = Reader(found["records"].write, _verified)
    found["packed, shown"] = Reader(found["records"].write, _info)
    found["bench lines"] = Reader(lambda place, draw: _lines(place, draw, scaling()), _report)
    found["bench predictions"] = Reader(lambda place, draw: _lines(place, draw, predictions()), _predicted(folder))
    found["bench cases"] = Reader(lambda place, draw: _json(place, draw, _CASES), _cases)
    found["plan machine"] = Reader(lambda place, draw: _json(place, draw, told(gpus(8), DGX_1)), _machine)
    found["plan measured"] = Reader(lambda place, draw: _lines(place, draw, scaling()), _measured)
    return found


_IMAGES = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
_CASES = [{"model": "mlp", "devices": [1, 2], "batch": 32, "backends": ["jax"], "precision": ["float32"]}]


def _of_bytes(data: bytes, read: Callable[[Path], Any], name: str = "a.bin") -> Reader:
    def write(place: Path, draw: Draw) -> Path:
        (place / name).write_bytes(mutated_bytes(data, draw))
        return place / name

    return Reader(write, read)


def _of_source(path: Path) -> Reader:
    """One of a source's files is changed."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    contents = {each.relative_to(path) if path.is_dir() else Path(path.name): each.read_bytes() for each in files}

    def write(place: Path, draw: Draw) -> Path:
        chosen = draw.choice(list(contents))
        for name, data in contents.items():
            (place / "in" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "in" / name).write_bytes(mutated_bytes(data, draw) if name == chosen else data)
        return place / "in" if path.is_dir() else place / "in" / path.name

    return Reader(write, _samples if path.is_dir() else _items)


def _lines(place: Path, draw: Draw, lines: list[Any]) -> Path:
    (place / "a.jsonl").write_bytes(mutated_lines(lines, draw))
    return place / "a.jsonl"


def _json(place: Path, draw: Draw, value: Any) -> Path:
    text = json.dumps(value).encode()
    data = mutated_bytes(text, draw) if draw.random() < 0.25 else json.dumps(mutated_json(value, draw)).encode()
    (place / "a.json").write_bytes(data)
    return place / "a.json"


def _csv(folder: Path) -> bytes:
    images = sorted(class_folder(folder / "listed", per_class=2).rglob("*.jpg"))
    images = images or sorted(each for each in (folder / "listed").rglob("*") if each.is_file())
    return ("path,label\n" + "".join(f"{image},{i}\n" for i, image in enumerate(images))).encode()


def _picture(path: Path) -> None:
    read_picture(path.read_bytes())


def _items(path: Path) -> None:
    for item in source_of(path).items(0):
        with contextlib.suppress(DataError):
            prepare(item, Recipe("png"))


def _samples(path: Path) -> None:
    with Records(path) as records:
        for _ in records:
            pass


def _verified(path: Path) -> None:
    if damage := verify(path):
        raise DataError("; ".join(damage))


def _info(path: Path) -> None:
    _command("records", "info", path)
    _command("records", "info", "--json", path)


def _report(path: Path) -> None:
    _command("bench", "-o", path, "--report", path.parent / "report")


def _predicted(folder: Path) -> Callable[[Path], None]:
    measured = folder / "measured.jsonl"
    measured.write_text("".join(json.dumps(line) + "\n" for line in scaling()))
    return lambda path: _command("bench", "-o", measured, "--predicted", path, "--report", path.parent / "report")


def _cases(path: Path) -> None:
    from abreast.bench.case_file import read_requests
    from abreast.bench.cases import Request

    read_requests(path, Request(model="", backends=("jax",), devices=(1,)))


def _machine(path: Path) -> None:
    _command("plan", "--machine", path, "--model", "resnet50", "--step-time", "500ms")


def _measured(path: Path) -> None:
    _command("plan", "--measured", path, "--machine", "aws-p3.16xlarge", "--model", "resnet50")


def _command(*words: object) -> None:
    """A command's code is 0 where the file is fine; 1 or 2 stands for one error. Anything else comes out of `main`."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        try:
            code = cli.main([str(word) for word in words])
        except SystemExit as end:
            code = int(end.code or 0)
    assert code in (0, 1, 2), code
    if code:
        raise AbreastError(f"{words[0]} ended with {code}")


def emptied(place: Path) -> Path:
    """The folder, with nothing in it."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return place
