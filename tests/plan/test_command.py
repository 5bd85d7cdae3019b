"""`abreast plan`: what it prints, its JSON, and one clear error for each thing that cannot be."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from abreast import cli
from tests.harness.client import ROOT

GIVEN = "--model resnet50 --machine dgx-1-v100 --batch 64 --step-time 0.2"


@pytest.fixture
def plan(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(arguments: str) -> tuple[int, str, str]:
        code = cli.main(["plan", *shlex.split(arguments)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def test_the_table_says_that_it_is_a_prediction_and_answers(plan: Any) -> None:
    code, out, err = plan(f"{GIVEN} --devices 16 --epoch-rows 1281167 --price 3")
    assert code == 0 and err == ""
    lines = out.splitlines()
    assert lines[0].startswith("predicted, not measured: resnet50")
    assert lines[3].split()[:3] == ["DEVICES", "HOSTS", "ROWS/S"]
    assert [line.split()[0] for line in lines[4:9]] == ["1", "2", "4", "8", "16"]
    for answer in ("worth it:", "a step of 16 devices:", "helps most:", "an epoch on 16:"):
        assert answer in out


def test_the_json_holds_every_point(plan: Any) -> None:
    _, out, _ = plan(f"{GIVEN} --json")
    found = json.loads(out)
    assert found["kind"] == "prediction"
    assert [point["num_devices"] for point in found["points"]] == [1, 2, 4, 8]
    assert found["points"][0]["rows_per_second"] == pytest.approx(320)


def test_a_machine_and_a_step_time_may_come_from_files(plan: Any, tmp_path: Path) -> None:
    machine = {
        "name": "mine",
        "device": "V100",
        "devices_per_host": 2,
        "device_link": {"kind": "nvlink", "bytes_per_second": 5e10},
    }
    (tmp_path / "machine.json").write_text(json.dumps(machine))
    (tmp_path / "bench.jsonl").write_text(json.dumps({"case": {}, "median": 320.0, "unit": "rows/s"}) + "\n")
    code, out, _ = plan(
        f"--model resnet50 --batch 64 --machine {tmp_path}/machine.json --step-from {tmp_path}/bench.jsonl"
    )
    assert code == 0
    assert "on mine" in out and "step of one device: 200 ms" in out and "measured" in out


def test_without_a_step_time_the_roofline_says_its_error(plan: Any) -> None:
    code, out, _ = plan("--model bert_large --machine hgx-h100 --batch 16 --precision bf16")
    assert code == 0 and "right within a factor 2" in out


def test_a_model_may_be_a_number_of_parameters(plan: Any) -> None:
    code, out, _ = plan("--parameters 7e9 --tensors 290 --machine hgx-h100 --step-time 1.5 --hosts 4 --gradients bf16")
    assert code == 0 and "7,000,000,000 parameters" in out and "\n32 " in out


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ("--model resnet5 --machine dgx-2", "no model is called 'resnet5'", "resnet50"),
        ("--model resnet50 --machine dgx3", "no machine is called 'dgx3'", "did you mean dgx-"),
        ("--machine dgx-2", "no model is given", "--model resnet50"),
        (f"{GIVEN} --devices 13", "13 devices on 2 hosts, with 8 each", "as 12 devices"),
        (f"{GIVEN} --devices 16 --hosts 1", "16 devices per host, but dgx-1-v100 has 8", "more hosts"),
        (f"{GIVEN} --devices 0", "0 devices", "at least one"),
        ("--model resnet50 --machine pcie3-x4-box --step-time 1 --devices 8", "has no network", "network"),
        (f"{GIVEN} --batch -3", "the batch per device is -3", "above zero"),
        (f"{GIVEN} --accumulate 0", "accumulation is 0", "1 or more"),
        (f"{GIVEN} --gradients fp8", "gradients in 'fp8'", "powersgd"),
        (f"{GIVEN} --exchange rung", "no exchange is called 'rung'", "ring"),
        (f"{GIVEN} --price 3", "a price needs the rows of an epoch", "--epoch-rows"),
        (f"{GIVEN} --epoch-rows -1 --price 3", "-1 rows", "above zero"),
        (f"{GIVEN} --step-from x.jsonl", "the step time is given twice", "--step-time or --step-from"),
        ("--model resnet50 --machine dgx-2 --step-from none.jsonl", "none.jsonl cannot be read", "JSON lines"),
        ("--model resnet50 --machine dgx-2 --step-time 120000", "a step of 120000 s", "0.125 for 125 ms"),
        (f"{GIVEN} --lost 1.5", "a share that is not below one", "rates"),
        (f"{GIVEN} --slow-link 0.1", "a slow link that is faster", "1 or more"),
    ],
)
def test_what_cannot_be_is_one_error(plan: Any, arguments: str, message: str, hint: str) -> None:
    code, out, err = plan(arguments)
    assert code == 2 and out == ""
    assert message in err
    assert hint in err[err.index("hint:") :]


@pytest.mark.parametrize(
    "line",
    ['{"median": 1.0, "unit": "GB/s", "case": {}}', "{}", "not json", '{"median": "x", "unit": "s", "case": {}}', ""],
)
def test_a_line_that_is_no_step_time_is_refused(plan: Any, tmp_path: Path, line: str) -> None:
    (tmp_path / "lines.jsonl").write_text(line + "\n")
    code, _, err = plan(f"--model resnet50 --machine dgx-2 --step-from {tmp_path}/lines.jsonl")
    assert code == 2 and "hint:" in err


def test_the_guide_shows_what_is_printed(plan: Any) -> None:
    text = (ROOT / "docs/guides/planning.md").read_text()
    shown = 0
    for block in text.split("```text\n")[1:]:
        command, _, rest = block.split("```")[0].partition("\n")
        if command.startswith("$ abreast plan "):
            assert plan(command.removeprefix("$ abreast plan "))[1].strip() == rest.strip()
            shown += 1
    assert shown >= 2
