"""Our finders in `sys.meta_path` leave other imports, finders and loaders as they are."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from abreast.after_import import after_import
from abreast.import_hooks import found


class Counting:
    """Executes the module `later` and counts it."""

    def __init__(self) -> None:
        self.executed: list[str] = []

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        return found(self, self._execute, fullname, path, target) if fullname == "later" else None

    def _execute(self, plain: Any, module: ModuleType) -> None:
        plain(module)
        self.executed.append(module.__name__)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting()
    monkeypatch.setattr(sys, "meta_path", [counting, *sys.meta_path])
    for name in ("later", "other"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return counting


def test_a_module_of_a_zip_file_is_executed_by_us_and_its_neighbour_is_not(
    counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All modules of a zip file have one loader."""
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as file:
        file.writestr("later.py", "import other")
        file.writestr("other.py", "value = 3")
    monkeypatch.syspath_prepend(tmp_path / "both.zip")
    later = importlib.import_module("later")
    assert later.other.value == 3
    assert counting.executed == ["later"]


def test_finders_without_find_spec_are_skipped_as_python_does(
    counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "later.py").write_text("value = 3")
    monkeypatch.syspath_prepend(tmp_path)
    sys.meta_path.insert(1, object())  # type: ignore[arg-type]
    assert importlib.import_module("later").value == 3
    assert counting.executed == ["later"]


def test_a_module_that_is_imported_later_is_passed_to_the_function_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_later.py").write_text("value = 3")
    monkeypatch.syspath_prepend(tmp_path)
    before, seen = list(sys.meta_path), []

    def look(module: ModuleType) -> None:
        seen.append(module.value)

    after_import("imported_later", look)
    end = after_import("imported_later", look)
    assert importlib.util.find_spec("imported_later") is not None  # as many look whether a package is installed
    assert seen == []
    import imported_later  # type: ignore[import-not-found]

    assert seen == [3] == [imported_later.value]
    assert sys.meta_path == before
    end()
    del sys.modules["imported_later"]


def test_a_module_that_fails_and_is_imported_again_is_passed_to_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fails_once.py").write_text("import sys\nif not hasattr(sys, 'again'): raise ValueError\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[str] = []
    before = list(sys.meta_path)
    after_import("fails_once", lambda module: seen.append(module.__name__))
    with pytest.raises(ValueError):
        importlib.import_module("fails_once")
    monkeypatch.setattr(sys, "again", True, raising=False)
    importlib.import_module("fails_once")
    assert seen == ["fails_once"]
    assert sys.meta_path == before
    del sys.modules["fails_once"]
