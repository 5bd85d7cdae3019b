"""What a type checker sees of abreast: the names that exist, the words that a setting may be, and the type of a batch.

One call of mypy reads `USES`. A line that ends in `# error: CODE` must have that error, and other lines must have none.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import abreast
import abreast.records
from tests.harness.client import ROOT

USES = """
from typing import Any, Literal, assert_type

import numpy as np
import numpy.typing as npt

import abreast
from abreast import records
from abreast.doctor.diagnosis import Diagnosis

Pixels = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]

abreast.wrong  # error: attr-defined
from abreast import misspelt  # error: attr-defined
records.wrong  # error: attr-defined
abreast.DataParallel
records.pack

abreast.DataParallel(devices=2, batch_norm="local")
abreast.DataParallel(devices=2, batch_norm="glob")  # error: arg-type
abreast.parallelize(object(), batch_norm="glob")  # error: arg-type
abreast.check(object(), batch_norm="glob")  # error: arg-type
records.pack("in", "out", storage="png", on_error="skip")
records.pack("in", "out", storage="gif")  # error: arg-type
records.pack("in", "out", on_error="ignore")  # error: arg-type
records.view("owl.jpg", 224, storage="keep")
records.view("owl.jpg", 224, storage="gif")  # error: arg-type
abreast.ImageRecords("out", 8, decoder="auto", size=(96, 128), seed=1)
abreast.ImageRecords("out", 8, decoder="tpu")  # error: call-overload
abreast.ImageRecords("out", 8, sizes=96)  # error: call-overload

with abreast.ImageRecords("out", 8) as labelled:
    for images, labels in labelled:
        assert_type(images, Pixels)
        assert_type(labels, Array)
    assert_type(labelled[0], tuple[Pixels, Array])
    labelled.class_names
    wrong: int = labelled.batch_size + ""  # error: operator
for alone in abreast.ImageRecords("out", 8, targets=None):
    assert_type(alone, Pixels)
for _, several in abreast.ImageRecords("out", 8, targets=["a", "b"], size=96):
    assert_type(several, dict[str, Array])
for weighted in abreast.ImageRecords("out", 8, weights="weight"):
    assert_type(weighted, tuple[Pixels, Array, Array])
for weighted_columns in abreast.ImageRecords("out", 8, targets=("a", "b"), weights="weight"):
    assert_type(weighted_columns, tuple[Pixels, dict[str, Array], Array])
for without_targets in abreast.ImageRecords("out", 8, targets=None, weights="weight"):
    assert_type(without_targets, tuple[Pixels, None, Array])

assert_type(abreast.devices(), tuple[str, ...])
assert_type(abreast.check(object()).outcome, Literal['equal'] | Literal['differs'] | Literal['refused'])
diagnosis: Diagnosis = abreast.diagnose(object(), steps=30)
"""


@pytest.mark.in_turn
def test_mypy_sees_what_there_is_and_no_more(tmp_path: Path) -> None:
    file = tmp_path / "uses.py"
    file.write_text(USES)
    assert errors_of_mypy(file) == {
        number: found[1]
        for number, line in enumerate(USES.splitlines(), start=1)
        if (found := re.search(r"# error: (.*)", line))
    }


def errors_of_mypy(file: Path) -> dict[int, str]:
    """The code of each error by its line."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=290)
    found = re.findall(r"^.*uses\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    assert len(found) == done.stdout.count("error:"), done.stdout + done.stderr
    return {int(number): code for number, code in found}


def test_the_names_for_type_checkers_are_the_names_that_load() -> None:
    for module in (abreast, abreast.records):
        assert set(module.__all__) == set(module._HOMES) == set(dir(module)) == imported_for_types(module)
        assert all(getattr(module, name) is not None for name in module._HOMES if module is abreast.records)


def imported_for_types(module: ModuleType) -> set[str]:
    tree = ast.parse(Path(str(module.__file__)).read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    names = [
        alias.name
        for block in blocks
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    return set(names)


def test_an_unknown_name_is_an_error_at_run_time_too() -> None:
    for module in (abreast, abreast.records):
        with pytest.raises(AttributeError, match=r"has no attribute 'wrong'"):
            _ = module.wrong
