"""The list of frameworks is written once, and a type checker compares each backend with the seam."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from abreast.backend import registry

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "abreast"
# Lists of something else that name all frameworks, among other things.
OTHER_LISTS = {
    "backend/fingerprint.py": "packages whose plain objects are not compared between processes",
    "backend/builds.py": "files that show the build of each framework",
    "exact/members.py": "modules whose classes are not the user's",
    "users_functions.py": "packages that the code of models and losses uses, and whose own code is not searched",
    "exact/snapshot.py": "modules whose state a look at the rows leaves alone",
    "checkpoints/reached.py": "packages whose functions and objects are not the user's",
    "provenance.py": "packages whose versions belong to a measurement",
}


def test_every_framework_has_a_title_and_a_package() -> None:
    assert set(registry.TITLES) == set(registry.BACKENDS)
    assert all((SRC / "backend" / name / "backend.py").is_file() for name in registry.BACKENDS)


def test_the_frameworks_are_listed_in_one_place() -> None:
    found = {str(path.relative_to(SRC)) for path in SRC.rglob("*.py") if list(lists_of_frameworks(path.read_text()))}
    assert found - OTHER_LISTS.keys() == {"backend/registry.py"}


@pytest.mark.parametrize("text", ['x in ("torch", "jax", "tensorflow")', "{'jax': 1, 'tensorflow': 2, 'torch': 3}"])
def test_another_list_of_frameworks_is_noticed(text: str) -> None:
    assert len(list(lists_of_frameworks(text))) == 1


def lists_of_frameworks(text: str) -> Iterator[ast.expr]:
    """Tuples, lists, sets and dictionaries with every framework among their items or keys."""
    for node in ast.walk(ast.parse(text)):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        names = {item.value for item in items if isinstance(item, ast.Constant)}
        if isinstance(node, ast.expr) and names.issuperset(registry.BACKENDS):
            yield node
