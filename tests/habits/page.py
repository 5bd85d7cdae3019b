"""Make `docs/reference/habits.md` from the lines that `sweep.py` wrote; the newest line of each cell counts.

    python -m tests.habits.page [--check]

`--check` writes nothing, and fails if the page does not match the lines. Imports no framework.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.habits.catalogue import Habit, every
from tests.habits.sweep import DEVICES, OUTPUT, Cell
from tests.harness.client import BACKENDS, ROOT

PAGE = ROOT / "docs" / "reference" / "habits.md"
_HEAD = """# Habits

A habit is a short script with something that Keras users do. Each runs with plain Keras, and with every model placed on 2 and on
4 simulated devices; the results of the script are compared. Made by `python -m tests.habits.page` from
`benchmarks/results/habits.jsonl`, which `python -m tests.habits.sweep` writes; do not edit. The scripts are in
`tests/habits/scripts`.

- **equal**: weights, optimizer, history, `evaluate`, `predict` and all other results of the script equal those of plain Keras.
- **warned**: equal, and a warning that plain Keras does not give: a layer gets no faster, or the next batch may differ.
- **refused**: an error before the first step names the cause.
- **announced**: it cannot be equal, and a warning says so.
- **different**: it is not equal, without a warning. **failed**: an error that plain Keras does not raise. Both are defects.
- **slow**: more than twice the processor time of plain Keras, and more than a second more, in the process of the script. On
  TensorFlow each replica is traced and compiled separately.
- An empty cell: plain Keras cannot do it on that backend. "-": not run yet.
"""
_ORDER = ("equal", "warned", "refused", "announced", "different", "failed")
Cells = dict[tuple[str, str, int], Cell]


def page(path: Path = OUTPUT) -> str:
    """The page for the lines of a file."""
    run, cells = read(path)
    parts = [_HEAD, _about(run), _totals(cells), _reasons(cells), *_themes(cells)]
    return "\n".join(part for part in parts if part)


def read(path: Path) -> tuple[dict[str, Any], Cells]:
    """The line of the sweep, and the newest cell of each existing habit, backend and number of devices."""
    run: dict[str, Any] = {}
    cells: Cells = {}
    for line in map(json.loads, path.read_text().splitlines()):
        kind = line.pop("kind")
        if kind == "run":
            run = line
        elif line["habit"] in every():
            cells[line["habit"], line["backend"], line["devices"]] = Cell(**line)
    return run, cells


def _about(run: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    note = f" {run['note']}" if "note" in run else ""
    return f"Measured on {run['date']}, commit {run['commit']}: {versions}.{note}\n"


def _totals(cells: Cells) -> str:
    rows = []
    for backend in BACKENDS:
        own = [cell for cell in cells.values() if cell.backend == backend]
        verdicts = Counter(cell.verdict for cell in own)
        slow = sum(cell.slow for cell in own)
        rows.append((backend, len({cell.habit for cell in own}), *(verdicts[name] for name in _ORDER), slow))
    return f"## Totals\n\nCells, two of each habit.\n\n{_table(('backend', 'habits', *_ORDER, 'slow'), rows)}"


def _reasons(cells: Cells) -> str:
    """Every cell that is not equal, with its error or warning."""
    rows = [
        (f"`{cell.habit}`", cell.backend, cell.devices, cell.verdict, _text(cell))
        for cell in cells.values()
        if cell.verdict != "equal"
    ]
    return f"## What is not equal\n\n{_table(('habit', 'backend', 'devices', 'verdict', 'error or warning'), sorted(rows))}"


def _text(cell: Cell) -> str:
    difference = "" if cell.difference is None else f"{cell.difference:.0e}: "
    return difference + cell.where.partition("\nhint:")[0].replace("|", "/").replace("\n", " ")[:300]


def _themes(cells: Cells) -> Iterator[str]:
    """A table for each theme, with the habits that have lines."""
    tried = {name for name, _, _ in cells}
    themes: dict[str, list[Habit]] = {}
    for habit in every().values():
        if habit.name in tried:
            themes.setdefault(habit.theme, []).append(habit)
    for theme, habits in themes.items():
        rows = [_row(habit, cells) for habit in habits]
        columns = ("habit", *(f"{backend}, {number}" for backend in BACKENDS for number in DEVICES))
        yield f"## {theme.capitalize()}\n\n{_table(columns, rows)}"


def _row(habit: Habit, cells: Cells) -> tuple[str, ...]:
    places = ((backend, number) for backend in BACKENDS for number in DEVICES)
    return (habit.title, *(_mark(habit, cells.get((habit.name, *place)), place[0]) for place in places))


def _mark(habit: Habit, cell: Cell | None, backend: str) -> str:
    if cell is None:
        return "-" if backend in habit.backends else ""
    verdict = cell.verdict if cell.verdict in _ORDER[:4] else f"**{cell.verdict}**"
    return f"{verdict}, slow ({cell.seconds / cell.plain_seconds:.1f} x)" if cell.slow else verdict


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def main(arguments: Sequence[str]) -> int:
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        print(f"{PAGE} does not match the lines\nhint: python -m tests.habits.page", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
