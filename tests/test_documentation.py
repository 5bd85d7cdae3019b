"""What the README and `docs/` show: code blocks run, links lead somewhere, and the reference names all that there is."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import abreast
from abreast.cli import _parser
from tests.harness.client import ROOT
from tests.harness.installed import keras_is_older_than

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

REFERENCE = ROOT / "docs" / "reference" / "cli.md"

# Each block has names of its own and says where it stands, for the traceback. The files of a page are its own.
_RUN_BLOCKS = """
import os, sys
for path in sys.argv[1:]:
    print("running", path, flush=True)
    os.makedirs(path.rpartition("-")[0], exist_ok=True)
    os.chdir(path.rpartition("-")[0])
    exec(compile(open(path).read(), path, "exec"), {"__name__": "__main__"})
"""


def blocks(language: str) -> list[tuple[Path, int, str]]:
    """`(page, number in the page, text)` of every fenced block of a language."""
    found = []
    for page in PAGES:
        texts = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        found += [(page, number, text) for number, text in enumerate(texts, start=1)]
    return found


def run(command: list[str], folder: Path, environment: dict[str, str], shim: Path) -> str:
    """What a command prints, where `abreast` and `python` are those of this repository."""
    shim.mkdir()
    for name, program in (("abreast", f'"{sys.executable}" -m abreast'), ("python", f'"{sys.executable}"')):
        (shim / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (shim / name).chmod(0o755)
    search = {"PATH": f"{shim}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    everything = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **search, **environment}
    result = subprocess.run(command, cwd=folder, env=everything, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    return result.stdout


@pytest.mark.in_turn
def test_the_python_blocks_run(backend: str, tmp_path: Path) -> None:
    scripts = []
    for page, number, text in blocks("python"):
        if 'format="torch"' in text and keras_is_older_than("3.15"):
            continue  # exports no programs of PyTorch
        scripts.append(tmp_path / f"{page.stem}-{number}.py")
        scripts[-1].write_text(text)
    assert len(scripts) >= 8
    command = [sys.executable, "-c", _RUN_BLOCKS, *map(str, scripts)]
    output = run(command, tmp_path, {"KERAS_BACKEND": backend}, tmp_path / "bin")
    shown = next(text for page, _, text in blocks("text") if page.stem == "failures")
    assert shown in output


def bash_blocks() -> list[object]:
    """The `bash` blocks as parameters. Those of the README run in `test_first_hour.py`; those that train take long."""
    return [
        pytest.param(
            text,
            id=f"{page.stem}-{number}",
            marks=[pytest.mark.full] if "abreast run" in text else [],
        )
        for page, number, text in blocks("bash")
        if page.stem != "README"
    ]


@pytest.mark.parametrize("text", bash_blocks())
def test_the_bash_blocks_run(text: str, tmp_path: Path) -> None:
    output = run(["bash", "-euc", text], ROOT, {}, tmp_path / "bin")
    assert ("test accuracy" if "examples/" in text else "cpu:0") in output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(
        r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    ):
        if target.startswith("https://"):
            continue  # no test needs the network
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        headings = re.findall(r"^#+ (.*)", linked.read_text(), re.MULTILINE) if anchor else []
        anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in anchors, target


def test_every_list_of_pages_names_each_page_once_in_the_same_order() -> None:
    """The lists of the README, of `docs/` on GitHub, and of the site."""
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).with_suffix("") for kind in ("md", "ipynb") for path in docs.glob(f"*/*.{kind}")}
    readme = (ROOT / "README.md").read_text().split("\n## Documentation\n")[1]
    lists = [
        re.findall(r"\]\(docs/(\w+/[\w-]+)\.\w+\)", readme),
        re.findall(r"\]\((\w+/[\w-]+)\.\w+\)", (docs / "README.md").read_text()),
        re.findall(r"^(\w+/[\w-]+)$", (docs / "index.md").read_text(), re.MULTILINE),
    ]
    assert sorted(lists[0]) == sorted(map(str, pages))
    assert lists[0] == lists[1] == lists[2]


def test_the_reference_names_every_public_name() -> None:
    text = (ROOT / "docs/reference/api.md").read_text()
    assert [name for name in abreast.__all__ if not re.search(rf"`{name}[`(]", text)] == []


def test_the_reference_names_every_option() -> None:
    """And no other one, in the section of its command. A spelling with `_` is that of the option with `-`."""
    shown = {command: section(command) for command in options()}
    for command in ("doctor", "check", "torture"):
        assert "The options are those of `abreast run`, and these:" in " ".join(shown[command].split())
        shown[command] += re.sub(
            r"^.*`--(quiet|dry-run|hosts|this|port|secret-file|ray|gpus-per-host|start-timeout|checkpoint|max-restarts)\b.*\n",
            "",
            shown["run"],
            flags=re.MULTILINE,
        )
    word = r"(?<![\w-])--?[a-z][\w-]*"
    named = {(command, option) for command, text in shown.items() for option in re.findall(word, code_of(text))}
    assert named == {(command, option) for command, its_own in options().items() for option in its_own}


def options() -> dict[str, set[str]]:
    """The options by command, as `records show`; `--version` is one."""
    found = {"--version": spellings(_parser()) - {"--help", "-h"}}
    for name, parser in commands_of(_parser()).items():
        for part, action in commands_of(parser).items() or [("", parser)]:
            found[f"{name} {part}".strip()] = spellings(action) - {"--help", "-h"}
    return found


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return next((dict(each.choices) for each in parser._actions if isinstance(each, argparse._SubParsersAction)), {})


def spellings(parser: argparse.ArgumentParser) -> set[str]:
    return {option.replace("_", "-") for action in parser._actions for option in action.option_strings}


def section(command: str) -> str:
    """The part of the reference about a command; a list's entry about `records show`."""
    name, _, part = command.partition(" ")
    found = re.search(rf"^## `abreast {name}\b.*?(?=^## |\Z)", REFERENCE.read_text(), re.DOTALL | re.MULTILINE)
    if found and part:
        found = re.search(rf"^- `{part}\b.*?(?=^- |\n\n)", found[0], re.DOTALL | re.MULTILINE)
    assert found, f"the reference has no section about {command}"
    return found[0]


def code_of(text: str) -> str:
    """What stands between backticks, without fenced blocks."""
    return "\n".join(re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)))


def test_the_reference_names_every_variable_of_ours() -> None:
    text = (ROOT / "docs/reference/environment.md").read_text()
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    internal = {"ABREAST_RANK", "ABREAST_WORLD_SIZE", "ABREAST_SUPERVISOR"}
    assert set(re.findall(r"\bABREAST_[A-Z_]+", sources)) - internal == set(re.findall(r"\bABREAST_[A-Z_]+", text))


def test_the_guide_explains_every_reason_of_a_check() -> None:
    source = (ROOT / "src/abreast/checking/reasons.py").read_text()
    reasons = set(re.findall(r'Reason\(\s*"([\w ]+)"', source))
    assert len(reasons) > 10
    guide = (ROOT / "docs/guides/is-my-script-exact.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \|", guide, re.MULTILINE)
    assert reasons - {name for row in rows for name in row.split(", ")} == set()
