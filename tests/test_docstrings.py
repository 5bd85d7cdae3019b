"""The docstrings of the public names: each says what you get, explains every argument, and has an example, which runs.

Docstrings are read from the sources, since this process loads no framework. Examples that need one run in a worker.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import doctest
import functools
import inspect
import io
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import abreast
from abreast import errors, records
from tests.harness.client import ROOT, Workers

# By name, the module of what users can import, and of what they get as a result.
_ERRORS = {name: "abreast.errors" for name, kind in vars(errors).items() if isinstance(kind, type)}
_RESULTS = {
    "Diagnosis": "abreast.doctor.diagnosis",
    "Experiment": "abreast.doctor.diagnosis",
    "Finding": "abreast.doctor.diagnosis",
    "TimelineSummary": "abreast.timeline.step_summary",
    "Verdict": "abreast.checking.verdict",
}
HOMES = abreast._HOMES | {name: f"abreast.records.{home}" for name, home in records._HOMES.items()} | _RESULTS | _ERRORS
_BASES = {"ImageRecords": ("Loader", "abreast.records.loading.loader")}  # whose methods and arguments it has
_OF_KERAS = re.compile("on_[a-z_]*|get_[a-z_]*|before|after")  # methods that only Keras or `Fit` calls
# Parts of a larger result, whose example shows them; an error has the arguments of `AbreastError`.
_WITHOUT_EXAMPLE = {"Experiment", "Finding", *_ERRORS} - {"AbreastError"}
_IN_MODULES = {"records", "errors", "trainer"}  # whole modules, and `abreast.ray.trainer`

_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Documented:
    """A public function, class, method or property."""

    name: str
    text: str
    arguments: tuple[str, ...] = ()

    def section(self, title: str) -> list[str]:
        """The names at the beginning of a section's entries."""
        found = re.search(rf"^{title}:\n((?:    .*\n|\n)*)", self.text + "\n", re.MULTILINE)
        return re.findall(r"^    (\*{0,2}\w+): ", found[1], re.MULTILINE) if found else []

    @property
    def examples(self) -> str:
        """The code of its examples, and what they show."""
        return "".join(each.source + each.want for each in doctest.DocTestParser().get_examples(self.text))


def documented() -> Iterator[Documented]:
    for name, home in HOMES.items():
        node = definition(name, home)
        if isinstance(node, ast.FunctionDef):
            yield Documented(name, docstring(node), arguments_of(node))
            continue
        nodes = [node, definition(*_BASES[name])] if name in _BASES else [node]
        found = [(part, each) for part in nodes for each in part.body if isinstance(each, ast.FunctionDef)]
        made = [each for _, each in found if each.name == "__init__" and not each.decorator_list][-1:]
        yield Documented(name, docstring(node), arguments_of(made[0]) if made else fields_of(node))
        for _, method in found:
            if not method.name.startswith("_") and not _OF_KERAS.fullmatch(method.name):
                yield Documented(f"{name}.{method.name}", docstring(method), arguments_of(method))


def fields_of(node: ast.ClassDef) -> tuple[str, ...]:
    typed = [each for each in node.body if isinstance(each, ast.AnnAssign) and "ClassVar" not in ast.unparse(each)]
    return tuple(ast.unparse(each.target) for each in typed)


def definition(name: str, home: str) -> ast.ClassDef | ast.FunctionDef:
    kinds = (ast.ClassDef, ast.FunctionDef)
    return next(each for each in source(home).body if isinstance(each, kinds) and each.name == name)


@functools.cache
def source(module: str) -> ast.Module:
    return ast.parse((ROOT / "src" / f"{module.replace('.', '/')}.py").read_text())


def docstring(node: ast.ClassDef | ast.FunctionDef) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


def arguments_of(node: ast.FunctionDef) -> tuple[str, ...]:
    given = node.args
    names = [
        each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs) if each.arg not in ("self", "cls")
    ]
    return (*names, *([f"**{given.kwarg.arg}"] if given.kwarg else []))


ALL = list(documented())


def test_every_public_name_has_a_docstring() -> None:
    assert [each.name for each in ALL if not each.text] == []


def test_the_first_line_is_a_sentence_by_itself() -> None:
    for each in ALL:
        first, _, rest = each.text.partition("\n")
        assert first.endswith((".", "`")) and (not rest or rest.startswith("\n")), each.name


def test_every_argument_is_explained_and_no_other_one() -> None:
    for each in ALL:
        named = each.section("Args") + (each.section("Attributes") if "." not in each.name else [])
        if each.name.partition(".")[0] in _ERRORS and not named:
            continue  # those of `AbreastError`
        assert set(each.arguments) - set(named) == set(), each.name
        assert set(each.section("Args")) - set(each.arguments) == set(), each.name


def test_a_method_or_its_class_says_what_it_raises() -> None:
    """The names of errors are of ours, or Python's."""
    for each in ALL:
        for error in each.section("Raises"):
            assert hasattr(errors, error) or hasattr(builtins, error), each.name


def test_every_public_name_has_an_example_that_uses_it() -> None:
    """A method may be in an example of its class, or of another method."""
    code = defaultdict[str, str](str)
    for each in ALL:
        code[each.name.partition(".")[0]] += each.examples
    named = {each.name: each.name.split(".") for each in ALL if each.name not in _WITHOUT_EXAMPLE}
    assert [name for name, (kind, *method) in named.items() if not mentions(code[kind], *(method or [kind]))] == []


def mentions(code: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", code) is not None


def test_the_examples_that_need_no_framework_run(tmp_path: Path) -> None:
    texts = {each.name: each.text for each in ALL if each.examples and not needs_keras(each.examples)}
    assert len(texts) > 20
    assert failures(texts, str(tmp_path)) == ""


@pytest.mark.in_turn
def test_the_examples_that_need_a_framework_run(workers: Workers, tmp_path: Path) -> None:
    texts = {each.name: each.text for each in ALL if needs_keras(each.examples)}
    assert len(texts) > 8
    for name, text in texts.items():
        assert workers.abreast.run(failures, texts={name: text}, folder=str(tmp_path)) == ""


def needs_keras(code: str) -> bool:
    """True if it imports Keras, or uses a name of a module that does."""
    homes = [abreast._HOMES.get(name, "") for name in re.findall(r"\babreast\.(\w+)", code)]
    return "keras" in code or any(imports_keras(home) for home in homes if home)


def imports_keras(module: str) -> bool:
    names = [alias.name for node in source(module).body if isinstance(node, ast.Import) for alias in node.names]
    return "keras" in names


def failures(texts: dict[str, str], folder: str) -> str:
    """What doctest reports of these examples by name, each run in an empty folder."""
    said = io.StringIO()
    for name, text in texts.items():
        own = Path(folder) / name
        own.mkdir()
        test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
        with contextlib.chdir(own):
            doctest.DocTestRunner(verbose=False, optionflags=_OPTIONS).run(test, out=said.write)
    return said.getvalue()


@pytest.mark.parametrize("wrong", [">>> 1 + 1\n3\n", ">>> missing\n"])
def test_a_wrong_example_is_noticed(tmp_path: Path, wrong: str) -> None:
    assert "planted" in failures({"planted": wrong}, str(tmp_path))


def test_the_site_lists_every_public_name() -> None:
    text = (ROOT / "docs/reference/docstrings.md").read_text()
    listed = re.findall(r"auto\w+:: (?:[\w.]+\.)?(\w+)$", text, re.MULTILINE)
    assert {*listed} >= _IN_MODULES
    assert abreast._HOMES.keys() | _RESULTS.keys() == {*listed} - _IN_MODULES | {"AbreastError"}
