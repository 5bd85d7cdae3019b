"""`Habit`: a script and its constants; `every`: all of them; `of_the_day`: those in turn. Runs no script.

A script may begin with these constants, each a literal:

- `EXPECTED`: the expected verdict if it is not "equal", per backend: `{"torch": "refused: words of the error"}` or
  `{"tensorflow": "announced: words of the warning"}`.
- `BACKENDS`: the backends on which plain Keras can do this, and `NEEDS`: packages without which it is skipped.
- `TOLERANCE`: the largest relative difference, if rounding grows beyond `LARGEST_DIFFERENCE`; a comment says why.
- `WITHOUT`: names of results that are not compared, per backend; a comment says why.
"""

from __future__ import annotations

import ast
import datetime
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.harness.client import BACKENDS

SCRIPTS = Path(__file__).parent / "scripts"
LARGEST_DIFFERENCE = (
    1e-4  # float32; most scripts differ by less than 1e-6, and what is computed otherwise by more than 1e-3
)
IN_TURN = 6  # on three backends: 40 s on two cores

_CONSTANTS = ("EXPECTED", "BACKENDS", "NEEDS", "TOLERANCE", "WITHOUT")


@dataclass(frozen=True)
class Habit:
    """`name` is `theme/file`; `title` the first line of the script's docstring."""

    name: str
    path: Path
    title: str
    expected: dict[str, str] = field(default_factory=dict)
    backends: tuple[str, ...] = BACKENDS
    needs: tuple[str, ...] = ()
    tolerance: float = LARGEST_DIFFERENCE
    without: dict[str, list[str]] = field(default_factory=dict)

    @property
    def theme(self) -> str:
        return self.name.partition("/")[0]

    def expects(self, backend: str) -> tuple[str, str]:
        """The verdict expected on a backend, and the words that the error or the warning must have."""
        verdict, _, words = self.expected.get(backend, "equal").partition(":")
        return verdict, words.strip()

    def missing(self) -> list[str]:
        """The packages that it needs and that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


@cache
def every() -> dict[str, Habit]:
    """All habits by name."""
    habits = map(_read, sorted(SCRIPTS.glob("*/*.py")))
    return {habit.name: habit for habit in habits}


def of_the_day(day: datetime.date, number: int = IN_TURN) -> set[str]:
    """Names of the habits in turn: some of every theme, and all of them in as many days as it takes."""
    names = list(every())
    turns = -(-len(names) // number)
    return set(names[day.toordinal() % turns :: turns])


def _read(path: Path) -> Habit:
    tree = ast.parse(path.read_text())
    title = (ast.get_docstring(tree) or "").partition("\n")[0]
    constants = {name.lower(): value for name, value in _literals(tree) if name in _CONSTANTS}
    return Habit(f"{path.parent.name}/{path.stem}", path, title, **constants)


def _literals(tree: ast.Module) -> list[tuple[str, Any]]:
    """Names of the module that are assigned a literal, in capitals."""
    return [
        (target.id, ast.literal_eval(node.value))
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in _CONSTANTS
    ]
