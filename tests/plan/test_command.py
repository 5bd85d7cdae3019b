"""`abreast plan`: its output, its JSON, and one clear error for each impossible request."""

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


def test_the_table_is_marked_as_a_prediction_and_has_the_answers(plan: Any) -> None:
    code, out, err = plan(f"{GIVEN} --devices 16 --epoch-rows 1281167 --price 3")
    assert code == 0 and err == ""
    lines = out.splitlines()
    assert lines[0].startswith("predicted, not measured: resnet50")
    assert lines[3].split()[:3] == ["DEVICES", "HOSTS", "ROWS/S"]
    assert [line.split()[0] for line in lines[4:9]] == ["1", "2", "4", "8", "16"]
    for answer in ("worth it:", "a step of 16 devices:", "helps most:", "an epoch on 16 devices:"):
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


def test_without_a_step_time_the_plan_reports_the_error_of_the_roofline(plan: Any) -> None:
    code, out, _ = plan("--model bert_large --machine hgx-h100 --batch 16 --precision bf16")
    assert code == 0 and "right within a factor 2" in out


@pytest.mark.parametrize("text", ["0.2", "0.2s", "200ms", "'200 ms'", "200000us", "200000µs"])
def test_a_step_time_may_name_its_unit(plan: Any, text: str) -> None:
    shown = plan(f"--model resnet50 --machine dgx-1-v100 --batch 64 --step-time {text}")
    assert shown == plan(GIVEN)


@pytest.mark.parametrize("model", ["--model resnet50", "--model bert_large", "--parameters 7e9"])
@pytest.mark.parametrize("seconds", ["12s", "150s"])
def test_a_step_time_with_a_unit_is_not_questioned(plan: Any, model: str, seconds: str) -> None:
    shown = {"12s": "12.0 s", "150s": "2.50 min"}[seconds]
    assert f"step of one device: {shown}" in plan(f"{model} --machine dgx-2 --step-time {seconds}")[1]


def test_a_small_step_needs_no_unit(plan: Any) -> None:
    """The step of a small model is many times its roofline, because of the launches of its operations."""
    assert "step of one device: 5.00 ms" in plan("--model lenet5 --machine dgx-2 --batch 1 --step-time 0.005")[1]
    assert "step of one device: 900 ms" in plan("--model resnet50 --machine dgx-2 --batch 1 --step-time 0.9")[1]


def test_a_step_of_half_an_hour_can_be_planned_for(plan: Any) -> None:
    """Twice its batch takes over an hour, which the user did not ask for."""
    code, out, _ = plan("--model resnet50 --machine dgx-1-v100 --step-time 2000s")
    assert code == 0 and "33.3 min" in out


def test_more_accumulation_is_named_by_its_total(plan: Any) -> None:
    _, out, _ = plan("--model vgg16 --machine pcie3-x1-box --step-time 0.25 --accumulate 4")
    assert "accumulation of 16 steps 2.15" in out


def test_accumulation_does_not_count_as_efficiency(plan: Any) -> None:
    """One device that updates once in four steps takes less time for them; so does each of several."""
    _, out, _ = plan("--model vgg16 --machine dgx-2 --batch 8 --step-time 20ms --accumulate 4")
    assert "a step below is 4 such steps with accumulated gradients, and one update" in out
    shares = [float(line.split()[6].removesuffix("%")) for line in out.splitlines()[5:10]]
    assert shares[0] == 100 and shares == sorted(shares, reverse=True) and shares[-1] < 99


def test_worth_it_names_the_planned_devices(plan: Any) -> None:
    _, out, _ = plan("--model resnet50 --machine dgx-2 --step-time 0.2 --hosts 2 --devices 28")
    assert "worth it: all 28; each added device brings more than half of its own throughput" in out
    _, out, _ = plan(f"{GIVEN} --devices 1")
    assert "worth it: only one device was planned; --devices plans for more" in out
    _, out, _ = plan("--model vgg16 --machine pcie3-x1-box --batch 1 --step-time 50ms --accumulate 4")
    assert "for 1 row (given)" in out and "worth it: 1 device; there is no prediction for 2" in out


def test_small_rates_keep_their_digits(plan: Any) -> None:
    _, out, _ = plan("--parameters 7e9 --machine dgx-2 --batch 1 --step-time 30s --devices 1")
    assert "0.0333 to 0.0333" in out


def test_without_a_prediction_no_step_and_no_price_are_shown(plan: Any) -> None:
    given = "--model vgg16 --machine pcie3-x1-box --batch 1 --step-time 0.001 --no-overlap --epoch-rows 1e6 --price 3"
    _, out, _ = plan(given)
    assert "4        1      -" in out and "a step of 4 devices" not in out
    assert "no prediction for 4 devices" in out and "an epoch on 1 device: 16.7 min, price 0.83" in out
    assert json.loads(plan(f"{given} --json")[1])["cost_per_epoch"]["num_devices"] == 1


def test_a_model_may_be_a_number_of_parameters(plan: Any) -> None:
    code, out, _ = plan("--parameters 7e9 --tensors 290 --machine hgx-h100 --step-time 1.5 --hosts 4 --gradients bf16")
    assert code == 0 and "7,000,000,000 parameters" in out and "\n32 " in out


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ("--model resnet5 --machine dgx-2", "no model is called 'resnet5'", "resnet50"),
        ("--model resnet50 --machine dgx3", "no machine is called 'dgx3'", "did you mean dgx-"),
        ("--model x --machine dgx-2", "no model is called 'x'", "`abreast plan --list` lists the 5"),
        ("--model resnet50 --machine qqq", "no machine is called 'qqq'", "`abreast plan --list` lists the "),
        ("--machine dgx-2", "no model is given", "--model resnet50"),
        (f"{GIVEN} --devices 13", "13 devices on 2 hosts, with 8 each", "12 devices in all"),
        (f"{GIVEN} --devices 16 --hosts 1", "16 devices per host, but dgx-1-v100 has 8", "more hosts"),
        (f"{GIVEN} --devices 0", "--devices 0", "at least 1"),
        ("--model resnet50 --machine pcie3-x4-box --step-time 1 --devices 8", "has no network", "network"),
        (f"{GIVEN} --batch -3", "--batch -3", "above zero"),
        (f"{GIVEN} --accumulate 0", "--accumulate 0", "1 or more"),
        (f"{GIVEN} --gradients fp8", "gradients in 'fp8'", "powersgd"),
        (f"{GIVEN} --exchange rung", "no exchange is called 'rung'", "ring"),
        (f"{GIVEN} --price 3", "the cost of an epoch needs its rows and a price", "--epoch-rows"),
        (f"{GIVEN} --epoch-rows -1 --price 3", "--epoch-rows -1", "above zero"),
        (f"{GIVEN} --step-from x.jsonl", "the step time is given twice", "--step-time or --step-from"),
        ("--model resnet50 --machine dgx-2 --step-from none.jsonl", "none.jsonl cannot be read", "JSON lines"),
        ("--model resnet50 --machine dgx-2 --step-time 120000s", "a step of 120000 s", "as 125ms or 0.125s"),
        ("--model resnet50 --machine dgx-2 --step-time fast", "--step-time fast", "as 125ms or 0.125s"),
        ("--model resnet50 --machine dgx-2 --step-time=-5ms", "--step-time -5ms", "above zero"),
        ("--model resnet50 --machine dgx-2 --step-time nan", "--step-time nan", "above zero"),
        ("--parameters 7e9 --machine dgx-2 --step-time 200", "--step-time 200 is 200 s", "--step-time 200ms, or"),
        (
            "--model resnet50 --machine hgx-h100 --step-time 9",
            "a roofline says about 23.6 ms",
            "--step-time 9ms, or --step-time 9s",
        ),
        (f"{GIVEN} --sync-every -1", "--sync-every -1", "1 or more"),
        (f"{GIVEN} --bucket-mb -1", "--bucket-mb -1", "0 or more"),
        (f"{GIVEN} --row-bytes nan", "--row-bytes nan", "0 or more"),
        (f"{GIVEN} --input-rate 0", "--input-rate 0", "above zero"),
        ("--parameters 25.6 --machine dgx-2 --step-time 1", "--parameters 25.6", "as 25.6e6"),
        (f"{GIVEN} --parameters 7e9", "resnet50 has 25,583,592 parameters, and --parameters says", "leave out --model"),
        ("--model resnet50 --machine dgx-1-v100 --precision bf16", "V100 does not compute in bf16", "fp16"),
        ("--model resnet50 --machine dgx-1-v100 --precision tf32", "V100 does not compute in tf32", "--step-time"),
        (f"{GIVEN} --lost 1.5", "--lost 1.5", "below 1"),
        (f"{GIVEN} --lost nan", "--lost nan", "below 1"),
        (f"{GIVEN} --slow-link 0.1", "--slow-link 0.1", "1 to 1e+06 times"),
        (f"{GIVEN} --slow-link nan", "--slow-link nan", "1 to 1e+06 times"),
        (f"{GIVEN} --slow-network inf", "--slow-network inf", "1 to 1e+06 times"),
        (f"{GIVEN} --stragglers 1000", "--stragglers 1000", "0 to 3"),
        (f"{GIVEN} --tensors 0", "0 gradient tensors of resnet50", "--tensors is 1 to 100,000"),
        (f"{GIVEN} --tensors -1", "-1 gradient tensors of resnet50", "1 to 100,000"),
        ("--parameters 10 --tensors 20 --machine dgx-2 --step-time 1", "20 gradient tensors", "1 to 10,"),
        ("--parameters 7e9 --tensors 0 --machine dgx-2 --step-time 1", "0 gradient tensors", "1 to 100,000"),
        ("--parameters 0.5 --machine dgx-2 --step-time 1", "--parameters 0.5", "whole number above zero"),
        (f"{GIVEN} --hosts 0", "--hosts 0", "at least 1"),
        (f"{GIVEN} --devices 8 --hosts -1", "--hosts -1", "at least 1"),
        (f"{GIVEN} --devices 19 --hosts 2", "19 devices on 2 hosts", "16 devices in all"),
        (f"{GIVEN} --devices 8000000", "8,000,000 devices", "1,000,000 at most"),
        (f"{GIVEN} --price inf --epoch-rows 5", "--price inf: there is no number in it", "2.50 EUR"),
        (f"{GIVEN} --price 1 --epoch-rows inf", "--epoch-rows inf", "above zero"),
        ("--model resnet50 --machine dgx-2 --batch -5", "--batch -5", "above zero"),
        ("--model resnet50 --machine dgx-2 --batch nan", "--batch nan", "above zero"),
    ],
)
def test_an_impossible_request_is_one_error(plan: Any, arguments: str, message: str, hint: str) -> None:
    code, out, err = plan(arguments)
    assert code == 2 and out == ""
    assert message in err
    assert hint in err[err.index("hint:") :]


@pytest.mark.parametrize(
    "line",
    ['{"median": 1.0, "unit": "GB/s", "case": {}}', "{}", "not json", '{"median": "x", "unit": "s", "case": {}}', ""],
)
def test_a_line_without_a_step_time_is_refused(plan: Any, tmp_path: Path, line: str) -> None:
    (tmp_path / "lines.jsonl").write_text(line + "\n")
    code, _, err = plan(f"--model resnet50 --machine dgx-2 --step-from {tmp_path}/lines.jsonl")
    assert code == 2 and "hint:" in err


@pytest.mark.parametrize(
    ("case", "median", "unit", "message", "hint"),
    [
        ({"devices": 8}, 0.2, "s", "lines.jsonl is for 8 devices", "--measured"),
        ({"devices": 1, "rows_per_device": 16.0}, 0.2, "s", "for 16.0 rows, and 32 are planned", "--batch 16"),
        ({}, 0, "rows/s", "the median of its last line is 0", "above zero"),
        ({}, True, "s", "the median of its last line is True", "above zero"),
        pytest.param({}, 10**400, "s", "of its last line is inf", "above zero", id="more than any float holds"),
        ({}, 5e6, "ms", "a step of 5000 s", "at most one hour"),
    ],
)
def test_a_line_of_another_step_is_refused(
    plan: Any, tmp_path: Path, case: dict[str, Any], median: float, unit: str, message: str, hint: str
) -> None:
    (tmp_path / "lines.jsonl").write_text(json.dumps({"case": case, "median": median, "unit": unit}))
    code, out, err = plan(f"--model resnet50 --machine dgx-2 --step-from {tmp_path}/lines.jsonl")
    assert code == 2 and out == ""
    assert message in err and hint in err[err.index("hint:") :]


def test_more_hosts_than_a_machine_allows_are_refused(plan: Any, tmp_path: Path) -> None:
    link = {"kind": "tcp", "bytes_per_second": 1.25e9}
    machine = {"name": "mine", "device": "V100", "devices_per_host": 2, "device_link": link | {"kind": "pcie"}}
    (tmp_path / "machine.json").write_text(json.dumps(machine | {"network": link, "most_hosts": 2}))
    given = f"--model resnet50 --machine {tmp_path}/machine.json --step-time 0.2"
    assert plan(f"{given} --devices 4")[0] == 0
    code, _, err = plan(f"{given} --devices 6")
    assert code == 2 and "3 hosts, but mine has at most 2" in err and "most_hosts" in err


def test_the_guide_shows_what_is_printed(plan: Any) -> None:
    text = (ROOT / "docs/guides/planning.md").read_text()
    shown = 0
    for block in text.split("```text\n")[1:]:
        command, _, rest = block.split("```")[0].partition("\n")
        if command.startswith("$ abreast plan "):
            assert plan(command.removeprefix("$ abreast plan "))[1].strip() == rest.strip()
            shown += 1
    assert shown >= 2


def test_the_names_are_listed_without_a_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--list"]) == 0
    text = capsys.readouterr().out
    for option, name, about in (
        ("--model", "resnet50", "25,583,592 parameters; with an operation count"),
        ("--machine", "dgx-2", "16 x V100"),
        ("--exchange", "ring", "all-reduce"),
        ("--software", "gloo", "PyTorch"),
    ):
        part = next(part for part in text.split("\n\n") if part.startswith(option))
        assert any(line.split()[0] == name and about in line for line in part.splitlines())
    assert cli.main(["plan", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exchange"].keys() == {"none", "ring", "tree", "hierarchical"}


def test_a_listed_model_without_an_operation_count_is_not_marked(plan: Any) -> None:
    listed = json.loads(plan("--list --json")[1])["model"]
    for name, about in listed.items():
        code, _, err = plan(f"--model {name} --machine dgx-1-v100 --devices 1")
        assert (code == 0) == ("with an operation count" in about), (name, err)
    assert 0 < sum("with an operation count" in about for about in listed.values()) < len(listed)


def test_a_missing_machine_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--model", "resnet50"]) == 2
    assert "error: no machine is given\nhint: give `--machine NAME`" in capsys.readouterr().err
