"""Parquet files from strangers: one that expands without end, or that ends Arrow's reader, is one error in bounded time."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from abreast.errors import DataError
from abreast.records.sources.choose import source_of
from tests.harness.client import ROOT
from tests.records.test_tables import table, write

_READ = """
import json, resource, sys, time
sys.path.insert(0, "src")
from abreast.errors import DataError
from abreast.records.sources.choose import source_of
began = time.monotonic()
try:
    images = [item.image for item in source_of(sys.argv[1]).items(0)]
    error = next((image.message for image in images if isinstance(image, DataError)), None)
except DataError as found:
    error = found.message
with open("/proc/self/status") as status:
    own = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
peak = max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
print(json.dumps({"error": error, "seconds": time.monotonic() - began, "peak_mib": peak / 1024}))
"""


def read(path: Path) -> dict[str, Any]:
    """The cost of reading all rows of a file, in a separate process."""
    command = [sys.executable, "-c", _READ, str(path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    return dict(json.loads(found.stdout))


def bomb(path: Path, kind: str) -> Path:
    """A small file of `kind` whose rows, or whose pages, are very large."""
    rows: list[bytes] = {"wide rows": [b"\0" * (1 << 24)] * 40, "one page": [b"\0" * (1 << 20)] * 1900}.get(kind, [])
    if kind == "many rows":
        column = pyarrow.nulls(50_000_000, pyarrow.binary())
        pyarrow.parquet.write_table(pyarrow.table({"image": column}), path, compression="zstd", row_group_size=1 << 26)
        return path
    settings: dict[str, Any] = {"use_dictionary": kind == "wide rows", "data_page_size": 1 << 30}
    pyarrow.parquet.write_table(
        pyarrow.table({"image": rows}), path, compression="zstd", write_batch_size=4096, **settings
    )
    return path


@pytest.mark.parametrize("kind", ["wide rows", "many rows", pytest.param("one page", marks=pytest.mark.full)])
def test_a_small_file_that_expands_without_end_is_refused(tmp_path: Path, kind: str) -> None:
    path = bomb(tmp_path / "a.parquet", kind)
    assert path.stat().st_size < 300_000
    found = read(path)
    assert found["error"] is not None and f"cannot read {path}" in found["error"]
    assert found["peak_mib"] < 1024 and found["seconds"] < 10


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_a_changed_file_is_read_or_is_one_error(tmp_path: Path, count: int) -> None:
    draw = random.Random(7)
    write(tmp_path / "a.parquet", table(12, name=["a", "b", None] * 4), row_group_size=5)
    whole = (tmp_path / "a.parquet").read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    outcomes: list[int | str] = []
    for number in range(count):
        changed = bytearray(whole)
        for _ in range(draw.choice([1, 1, 2, 8])):
            changed[draw.randrange(footer if number % 4 else 4, len(whole))] = draw.randrange(256)
        (tmp_path / "b.parquet").write_bytes(changed)
        try:
            outcomes.append(sum(1 for _ in source_of(tmp_path / "b.parquet").items(0)))
        except DataError as error:
            outcomes.append(error.message)
    assert len(outcomes) == count and any(isinstance(outcome, str) for outcome in outcomes)
