"""The page of a plan, with measurements beside predictions: the numbers, the styles, and one clear error each."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from abreast import cli
from abreast.plan.measured_steps import measured_steps, with_measured_shape
from abreast.plan.page import series_point
from abreast.plan.predict import Prediction
from tests.bench.samples import MACHINE, line, scaling

GIVEN = "--model resnet50 --machine dgx-1-v100"


@pytest.fixture
def plan(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `abreast plan` in an empty folder; returns its exit code, its output, and its errors."""
    monkeypatch.chdir(tmp_path)

    def run(arguments: str) -> tuple[int, str, str]:
        code = cli.main(["plan", *shlex.split(arguments)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def write(lines: list[dict[str, Any]], path: Path = Path("lines.jsonl")) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))


def cells(page: str, caption: str) -> list[list[str]]:
    """The rows of a table, its heads first, without markup."""
    table = page.partition(f"<caption>{caption}</caption>")[2].partition("</table>")[0]
    rows = re.findall("<tr>(.*?)</tr>", table)
    return [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_the_page_has_the_numbers_of_the_json(plan: Any) -> None:
    _, out, err = plan(f"{GIVEN} --batch 64 --step-time 0.2 --json --html plan.html")
    assert err == "abreast: wrote plan.html\n"
    found = json.loads(out)
    page = Path("plan.html").read_text()
    (heads, *rows) = cells(page, "Predicted throughput")
    assert heads[:6] == ["devices", "hosts", "rows/s", "80% interval", "speed-up", "efficiency"]
    for row, point in zip(rows, found["points"], strict=True):
        assert int(row[0]) == point["num_devices"]
        assert float(row[2].replace(",", "")) == round(point["rows_per_second"])
        assert float(row[4][:-1]) == pytest.approx(point["rows_per_second"] / 320, abs=0.005)
    (heads, *rows) = cells(page, "Parts of a predicted step")
    assert heads[:4] == ["devices", "step", "80% interval", "computing"] and "all-reduce" in heads
    for row, point in zip(rows, found["points"], strict=True):
        parts = [float(cell.split()[0]) for cell in (row[1], *row[3:])]
        assert parts[0] == pytest.approx(1000 * point["step_seconds"], abs=1)  # milliseconds, all of them
        assert sum(parts[1:]) == pytest.approx(parts[0], abs=1)


def test_the_range_of_a_step_is_that_of_its_rate(plan: Any) -> None:
    found = json.loads(plan(f"{GIVEN} --batch 64 --step-time 0.2 --json")[1])["points"][-1]
    point = series_point(Prediction(**found))
    assert point.seconds == found["step_seconds"]
    assert point.range_per_second == pytest.approx((found["low"], found["high"]))
    assert sum((point.parts or {}).values()) == pytest.approx(point.seconds)


def test_the_page_has_the_answers_of_the_text(plan: Any) -> None:
    plan(f"{GIVEN} --step-time 0.2 --devices 16 --epoch-rows 1281167 --price 3 --html plan.html")
    page = Path("plan.html").read_text()
    for answer in ("Worth it: all 16;", "Helps most: ", "An epoch on 16 devices: ", "price of an epoch"):
        assert answer in page
    assert "Longest part of a step of 16 devices: computing" in page
    assert cells(page, "Changes and their throughput")[0] == ["change", "throughput"]


def test_all_of_a_prediction_looks_predicted(plan: Any) -> None:
    plan(f"{GIVEN} --step-time 0.2 --html plan.html")
    page = Path("plan.html").read_text()
    assert page.count("<svg") == 3
    assert 'class="predicted c2"' in page
    assert 'class="measured c2"' not in page.partition("Where a step goes")[0]
    assert "predicted, not measured" in page


def test_measured_values_stand_beside_the_prediction_in_their_own_style(plan: Any) -> None:
    write(scaling())
    code, out, _ = plan(f"{GIVEN} --measured lines.jsonl --html plan.html")
    assert code == 0
    assert "step of one device: 100 ms for 64 rows (measured, lines.jsonl)" in out
    table = [row.split() for row in out.splitlines()[4:8]]
    assert out.splitlines()[3].split()[5] == "MEASURED"
    assert [row[6] for row in table] == ["640", "1,219", "2,327", "4,096"]
    page = Path("plan.html").read_text()
    assert 'class="predicted c2"' in page and 'class="measured c2"' in page and 'class="measured c0"' in page
    rows = cells(page, "Predicted and measured throughput")[1:]
    assert [row[2] for row in rows] == ["640", "1,219", "2,327", "4,096"]
    off = float(rows[3][1].replace(",", "")) / 4096 - 1
    assert rows[3][4] == f"{off:+.1%}"


def test_a_line_that_is_cut_off_is_left_out_and_reported(plan: Any) -> None:
    write(scaling())
    whole = plan(f"{GIVEN} --measured lines.jsonl")
    with Path("lines.jsonl").open("a") as file:
        file.write(json.dumps(line(2, 0.3))[:-9])
    said = "abreast: the last line of lines.jsonl is cut off and left out\n"
    assert plan(f"{GIVEN} --measured lines.jsonl") == (*whole[:2], said + whole[2])


def test_the_json_has_what_was_measured(plan: Any) -> None:
    write(scaling())
    found = json.loads(plan(f"{GIVEN} --measured lines.jsonl --json")[1])
    assert [each["num_devices"] for each in found["measured"]] == [1, 2, 4, 8]
    assert found["measured"][3]["rows_per_second"] == 4096
    assert found["measured"][3]["quartiles"] == pytest.approx([4096 / 1.05, 4096 / 0.95])


def test_a_step_that_bench_measured_may_be_the_step_of_a_plan(plan: Any) -> None:
    write([line(1, 0.1)])
    code, out, _ = plan(f"{GIVEN} --batch 64 --step-from lines.jsonl")
    assert code == 0 and "step of one device: 100 ms for 64 rows" in out


@pytest.mark.parametrize("option", ["--measured", "--batch 64 --step-from"])
def test_a_step_of_simulated_devices_is_no_step_of_a_gpu(plan: Any, option: str) -> None:
    write([line(1, 0.1, simulated=True, machine=MACHINE)])
    code, out, err = plan(f"{GIVEN} {option} lines.jsonl")
    assert (code, out) == (2, "")
    assert "lines.jsonl was measured on simulated devices, and dgx-1-v100 has V100" in err and "--cpu-devices" in err
    write([line(1, 0.1, machine=MACHINE)])
    assert "measured on a CPU, and dgx-1-v100 has V100" in plan(f"{GIVEN} {option} lines.jsonl")[2]
    link = {"kind": "measured", "bytes_per_second": 1e9}
    processor = {"name": "Some CPU", "memory_bytes_per_second": 1e10}
    own = {"name": "mine", "device": processor, "devices_per_host": 2, "device_link": link}
    for shares_cores in (False, True):
        Path("mine.json").write_text(json.dumps(own | {"shares_cores": shares_cores}))
        write([line(1, 0.1, simulated=shares_cores, machine=MACHINE)])
        assert plan(f"--model resnet50 --machine mine.json {option} lines.jsonl")[::2] == (0, "")
    write([line(1, 0.1)])
    assert (
        "measured on Some GPU, and mine has no GPU"
        in plan(f"--model resnet50 --machine mine.json {option} lines.jsonl")[2]
    )


@pytest.mark.parametrize("option", ["--measured", "--batch 64 --step-from"])
def test_a_step_of_another_gpu_is_announced(plan: Any, option: str) -> None:
    write([line(1, 0.1)])
    code, _, err = plan(f"{GIVEN} {option} lines.jsonl")
    assert code == 0
    assert (
        err
        == "abreast: lines.jsonl was measured on Some GPU, and dgx-1-v100 has V100: the plan takes its step as it is\n"
    )
    write([line(1, 0.1, machine=MACHINE | {"gpus": ["Tesla V100-SXM2-16GB"]})])
    assert plan(f"{GIVEN} {option} lines.jsonl")[::2] == (0, "")


def test_a_model_may_be_what_was_measured(plan: Any) -> None:
    """The model's tensors too: bench lists them in the order of the backward pass, in bytes."""
    shape = {"num_parameters": 1_010_000, "gradient_tensor_bytes": [40_000, 4_000_000]}
    write([line(1, 0.1, model="package:mine") | shape])
    code, out, _ = plan("--machine dgx-2 --measured lines.jsonl")
    assert code == 0 and "package:mine (1,010,000 parameters) on dgx-2" in out
    found = with_measured_shape(None, measured_steps("lines.jsonl", None, None, strong=False))
    assert found is not None and found.sizes == (1_000_000, 10_000)
    write([line(1, 0.1) | shape])
    assert "resnet50 (1,010,000 parameters)" in plan(f"{GIVEN} --measured lines.jsonl")[1]
    write([line(1, 0.1, model="package:mine") | {"gradient_tensor_bytes": ["many"]}])
    assert "no model is given" in plan("--machine dgx-2 --measured lines.jsonl")[2]


def test_a_rival_alone_is_measured_too(plan: Any) -> None:
    write([each for each in scaling() if each["case"]["side"] == "keras"])
    assert "step of one device: 99.0 ms" in plan(f"{GIVEN} --measured lines.jsonl")[1]


def test_names_of_users_are_not_markup(plan: Any) -> None:
    plan("--parameters 1e6 --model '<img src=x>' --machine dgx-2 --step-time 0.1 --html plan.html")
    page = Path("plan.html").read_text()
    assert "<img" not in page and "&lt;img src=x&gt;" in page


def test_the_page_reports_a_plan_that_abstains(plan: Any) -> None:
    write([])
    code, _, _ = plan("--model vgg16 --machine pcie3-x1-box --batch 1 --step-time 0.001 --no-overlap --html plan.html")
    assert code == 0
    page = Path("plan.html").read_text()
    assert "no prediction" in page and "No prediction for" in page


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ("--measured none.jsonl", "there is no file none.jsonl of measurements", "abreast bench"),
        ("--measured empty.jsonl", "empty.jsonl has no measurement of resnet50", "measure first"),
        ("--measured lines.jsonl --batch 32", "of resnet50, 32 rows per device", "there are resnet50 on jax"),
        ("--measured lines.jsonl --strong", "of resnet50, any rows in all", "there are resnet50 on jax"),
        ("--measured two.jsonl", "2 sets of measurements in two.jsonl fit", "choose one with --model and --batch"),
        ("--measured text.jsonl", "is not a measurement", "abreast bench"),
        ("--step-time 0.2 --html nowhere/plan.html", "there is no folder", "make the folder first"),
        ("--step-time 0.2 --html .", "it is not a file", "name of a file"),
    ],
)
def test_an_impossible_request_is_one_error_and_writes_nothing(
    plan: Any, arguments: str, message: str, hint: str
) -> None:
    write(scaling())
    write([], Path("empty.jsonl"))
    write([*scaling(), line(1, 0.1, machine=MACHINE)], Path("two.jsonl"))
    Path("text.jsonl").write_text("all is well\n")
    before = sorted(Path().iterdir())
    code, out, err = plan(f"{GIVEN} {arguments}")
    assert code == 2 and out == ""
    assert message in err and hint in err[err.index("hint:") :]
    assert sorted(Path().iterdir()) == before


def test_a_page_that_cannot_be_written_leaves_the_old_one(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("plan.html").write_text("old")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    code, _, err = plan(f"{GIVEN} --step-time 0.2 --html plan.html")
    assert code == 2 and "cannot write the page to" in err
    assert [path.name for path in Path().iterdir()] == ["plan.html"]
    assert Path("plan.html").read_text() == "old"
