"""Make `docs/reference/keras-tests.md` from the lines that `measure.py` wrote.

python -m tests.keras_own.page [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.harness.client import BACKENDS, ROOT
from tests.keras_own.measure import OUTPUT

PAGE = ROOT / "docs" / "reference" / "keras-tests.md"
_HEAD = """# Keras's own tests

Made by `python -m tests.keras_own.page`; do not edit.

The wheel of Keras contains its tests. The tests of trainers, callbacks, saving, optimizers, models and normalization, and others
that fit a model, run here twice: with plain Keras, and with every model placed on {devices} simulated devices, as with `abreast
run`. *With steps* counts the tests that ran at least one step on the devices; the others train no model.
"""
_NAMED = """
## Tests that pass with plain Keras but not on {devices} devices

"""
_PLAINLY = """
## Tests that do not pass with plain Keras

The reasons do not concern abreast: packages that are not installed, other backends, and missing hardware.

| backend | outcome | tests | reason |
| --- | --- | --- | --- |
"""
_COLUMNS = ("tests", "passed_plainly", "passed_placed", "with_steps")


def text(lines: Sequence[dict[str, Any]]) -> str:
    runs = [line for line in lines if line["kind"] == "run"]
    devices = runs[0]["devices"]
    parts = [_HEAD.format(devices=devices), _totals(lines), _NAMED.format(devices=devices)]
    parts += [_named(lines), _PLAINLY, _table(_plainly(lines)), _by_file(lines), *map(_origin, runs)]
    return "".join(parts)


def _totals(lines: Sequence[dict[str, Any]]) -> str:
    columns = ("backend", "tests", "pass with plain Keras", "pass placed", "with steps", "steps")
    head = f"\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}\n"
    return head + _table(
        (backend, *(str(sum(line[name] for line in _files(lines, backend))) for name in (*_COLUMNS, "steps")))
        for backend in BACKENDS
    )


def _named(lines: Sequence[dict[str, Any]]) -> str:
    differing = [line for line in lines if line["kind"] == "differs"]
    if not differing:
        return "None.\n"
    head = "| backend | test | reason |\n| --- | --- | --- |\n"
    return head + _table(
        (line["backend"], f"`{_short(line['test'])}`", line["reason"] or "**unknown**") for line in differing
    )


def _plainly(lines: Sequence[dict[str, Any]]) -> Iterator[Sequence[str]]:
    for line in lines:
        if line["kind"] == "plainly":
            yield line["backend"], line["outcome"], str(line["tests"]), line["reason"]


def _by_file(lines: Sequence[dict[str, Any]]) -> str:
    head = "\n## By file\n\nTests that pass with plain Keras, pass placed, and ran steps.\n\n"
    head += f"| file | {' | '.join(BACKENDS)} |\n| --- {'| --- ' * len(BACKENDS)}|\n"
    files = sorted({line["file"] for line in lines if line["kind"] == "file"})
    return head + _table((f"`{file}`", *(_cell(lines, backend, file) for backend in BACKENDS)) for file in files)


def _cell(lines: Sequence[dict[str, Any]], backend: str, file: str) -> str:
    line = next((line for line in _files(lines, backend) if line["file"] == file), None)
    return ", ".join(str(line[name]) for name in _COLUMNS[1:]) if line else ""


def _files(lines: Sequence[dict[str, Any]], backend: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["kind"] == "file" and line["backend"] == backend]


def _table(rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)


def _short(test: str) -> str:
    return test.removeprefix("keras_tests/")


def _origin(run: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items() if number)
    return f"\n{run['backend']}: measured {run['date'][:10]} at commit {run['commit']} with {versions}.\n"


def main(arguments: Sequence[str]) -> int:
    new = text([json.loads(line) for line in Path(OUTPUT).read_text().splitlines()])
    if arguments == ["--check"]:
        return 0 if PAGE.read_text() == new else 1
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
