"""Lines of measurements: whole ones only, and which of them say that something is measured already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from abreast import provenance
from abreast.bench import lines
from abreast.bench.cases import Cell
from abreast.bench.run import missing
from abreast.errors import DataError
from tests.bench.samples import case, line


def test_half_a_line_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    lines.append(path, [line(1, 0.1)])
    with path.open("a") as file:
        file.write('{"benchmark": "bench", "ca')
    assert lines.read(path) == [line(1, 0.1)]
    assert lines.half_line(path) == f"the last line of {path} is cut off and left out"
    lines.append(path, [line(2, 0.2)])
    assert lines.read(path) == [line(1, 0.1), line(2, 0.2)]
    assert lines.half_line(path) is None


def test_a_last_line_without_its_line_end_is_kept(tmp_path: Path) -> None:
    """Some editors save a file like this."""
    path = tmp_path / "bench.jsonl"
    path.write_text(json.dumps(line(1, 0.1)))
    assert lines.read(path) == [line(1, 0.1)]
    assert lines.half_line(path) is None
    lines.append(path, [line(2, 0.2)])
    assert lines.read(path) == [line(1, 0.1), line(2, 0.2)]


@pytest.mark.parametrize("text", ["not JSON\n", "[1, 2]\n", '{"no": "case"}\n'])
def test_a_line_that_is_not_a_measurement_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bench.jsonl"
    lines.append(path, [line(1, 0.1)])
    with path.open("a") as file:
        file.write(text)
    with pytest.raises(DataError, match=r"bench\.jsonl, line 2: .* is not a measurement"):
        lines.read(path)


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert lines.read(tmp_path / "none.jsonl") == []


def test_a_folder_is_refused_as_a_file_of_lines(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        lines.read(tmp_path)
    with pytest.raises(DataError, match="cannot write to"):
        lines.append(tmp_path, [line(1, 0.1)])


def test_cases_that_this_machine_has_measured_are_not_missing() -> None:
    cells = [Cell(case(devices), ("abreast", "keras")) for devices in (1, 2)]
    here, elsewhere = provenance.machine(), provenance.machine() | {"cpu": "another"}
    known = [line(1, 0.1, machine=here), line(1, 0.1, "keras", machine=here), line(2, 0.1, "keras", machine=here)]
    assert missing(cells, known) == [Cell(case(2), ("abreast",))]
    assert missing(cells, [line(1, 0.1, machine=elsewhere)]) == cells


def test_another_batch_is_another_case() -> None:
    cells = [Cell(case(1, rows=32), ("abreast",))]
    assert missing(cells, [line(1, 0.1, machine=provenance.machine())]) == cells


def test_the_command_and_the_machine_are_in_a_line() -> None:
    origin = provenance.origin_of(["abreast", "bench", "my model"], None)
    assert origin["command"] == "abreast bench 'my model'"
    assert "commit" not in origin
    assert origin["machine"]["cores"] >= 1
    assert origin["versions"]["keras"]


def test_a_folder_outside_of_a_repository_has_no_commit(tmp_path: Path) -> None:
    assert provenance.commit(tmp_path) is None
