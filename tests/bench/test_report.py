"""From lines to series, figures and a page: the arithmetic by hand, the styles, and what is written."""

from __future__ import annotations

import itertools
import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from abreast import cli
from abreast.bench import lines, plots, table
from abreast.bench.report import alone, page, write_report
from abreast.bench.run import measurements
from abreast.bench.series import Comparison, comparisons, read_predictions
from abreast.errors import AbreastError, DataError
from abreast.page.markup import Markup
from abreast.units import times
from tests.bench.samples import MACHINE, line, predictions, scaling

SVG = "{http://www.w3.org/2000/svg}"


def the_comparison(predicted: bool = False) -> Comparison:
    (found,) = comparisons(scaling(), predictions() if predicted else ())
    return found


def figure(name: str, comparison: Comparison) -> Markup:
    return next(drawing for short, _, drawing in plots.figures(comparison) if short == name)


def test_throughput_speed_up_and_efficiency_are_what_one_counts_by_hand() -> None:
    comparison = the_comparison()
    mine = comparison.series[0]
    eight = mine.points[-1]
    assert eight.rows_per_second == 512 / 0.125
    assert comparison.speed_up(eight) == pytest.approx(4096 / 640)
    assert mine.efficiency(eight) == pytest.approx(0.8)


def test_the_newest_line_of_a_case_counts() -> None:
    (found,) = comparisons([*scaling(), line(8, 0.1)])
    assert found.series[0].points[-1].seconds == 0.1


def test_weak_and_strong_scaling_machines_and_precisions_are_apart() -> None:
    strong = [line(devices, 0.1, rows=64, scaling="strong") for devices in (1, 2)]
    found = comparisons([*scaling(), *strong, line(1, 0.1, machine=MACHINE), line(1, 0.05, precision="bfloat16")])
    assert [len(each.series) for each in found] == [2, 1, 1, 1]
    assert [each.title for each in found] == [
        "resnet50 on jax, float32, 64 rows per device, input host",
        "resnet50 on jax, float32, 64 rows in all, input host",
        "resnet50 on jax, float32, 64 rows per device, input host",
        "resnet50 on jax, bfloat16, 64 rows per device, input host",
    ]


def test_lines_of_other_benchmarks_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    lines.append(path, [{"benchmark": "soak", "case": {}}, line(1, 0.1)])
    assert measurements(path) == [line(1, 0.1)]


@pytest.mark.parametrize("name", ["median", "machine", "quartiles"])
def test_a_line_that_lacks_something_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bench.jsonl"
    lines.append(path, [line(1, 0.1), {key: value for key, value in line(2, 0.1).items() if key != name}])
    with pytest.raises(DataError, match=rf"bench\.jsonl, line 2 has no {name}"):
        measurements(path)


WRONG: list[tuple[str, object]] = [
    ("median", "fast"),
    ("median", math.nan),
    ("median", 10**400),
    ("quartiles", [0.1]),
    ("quartiles", [0.0, 0.0]),
    ("quartiles", [0.2, 0.1]),
    ("machine", "mine"),
    ("step_parts_seconds", "most"),
    ("step_parts_seconds", {"compute": "most"}),
    ("case.devices", "two"),
    ("case.devices", 2.5),
    ("case.devices", -1),
    ("case.rows", 0),
    ("case.rows_per_device", math.inf),
    ("case.side", 3),
    ("case.precision", None),
    ("case.simulated", "no"),
    ("case.input_shape", 7),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_line_with_something_wrong_in_it_is_named(tmp_path: Path, name: str, value: object) -> None:
    path = tmp_path / "bench.jsonl"
    wrong = line(2, 0.1)
    (wrong["case"] if name.startswith("case.") else wrong)[name.removeprefix("case.")] = value
    lines.append(path, [line(1, 0.1), wrong])
    with pytest.raises(DataError, match=rf"bench\.jsonl, line 2 has .* as its {name}"):
        measurements(path)


@pytest.mark.parametrize("value", [5, None, "x", []])
def test_a_line_without_a_case_is_named(tmp_path: Path, value: object) -> None:
    path = tmp_path / "bench.jsonl"
    lines.append(path, [line(1, 0.1) | {"case": value}])
    with pytest.raises(DataError, match=r"bench\.jsonl, line 1 has no case"):
        measurements(path)


def test_a_prediction_belongs_to_the_cases_that_it_names() -> None:
    others = [{"case": {"model": "vgg16", "devices": 2}, "median": 0.1}]
    (found,) = comparisons(scaling(), [*predictions(), *others])
    assert [series.name for series in found.series] == ["abreast", "keras", "abreast, predicted"]
    assert [point.devices for point in found.series[2].points] == [1, 2, 4, 8, 16]
    assert found.series[2].points[-1].rows_per_second == pytest.approx(1024 / 0.15)


def test_the_table_has_a_row_per_side_and_number_of_devices() -> None:
    rows = table.report([the_comparison(predicted=True)]).splitlines()
    assert rows[1] == "Some GPU"
    assert rows[2].split() == ["side", "devices", "rows/s", "speed-up", "efficiency", "step", "quartiles"]
    assert rows[6].split() == ["abreast", "8", "4,096", times(6.4), "80%", *["125", "ms", "118.7", "to", "131.2", "ms"]]
    assert len(rows) == 3 + 4 + 4 + 5


def test_a_side_without_one_device_has_no_efficiency() -> None:
    (found,) = comparisons([line(2, 0.1)])
    assert table.rows(found)[0][3:5] == ("", "")
    assert [name for name, _, _ in plots.figures(found)] == ["step"]


@pytest.mark.parametrize("name", ["speed-up", "efficiency"])
def test_predicted_and_measured_never_share_a_style(name: str) -> None:
    root = ET.fromstring(alone(figure(name, the_comparison(predicted=True))))
    kinds = [group.get("class", "") for group in root.iter(f"{SVG}g") if group.find(f"{SVG}circle") is not None]
    assert sum("predicted" in kind for kind in kinds) == 2  # the curve, and its sample in the key
    assert not [kind for kind in kinds if "predicted" in kind and "measured" in kind]
    assert len(list(root.iter(f"{SVG}path"))) == 2 + 2  # two measured lines; a predicted one with its band


def test_the_ideal_line_goes_from_one_to_n() -> None:
    root = ET.fromstring(alone(figure("speed-up", the_comparison())))
    _, drawn = (
        each[0] for each in root.iter(f"{SVG}g") if each.get("class") == "ideal"
    )  # behind its sample in the key
    assert float(drawn.get("y1", 0)) > float(drawn.get("y2", 0))
    circles = [
        (float(each.get("cx", 0)), float(each.get("cy", 0)))
        for each in root.iter(f"{SVG}circle")
        if each.find(f"{SVG}title") is not None
    ]
    below = [y for x, y in circles if x == float(drawn.get("x2", 0))]
    assert len(below) == 2 and all(y > float(drawn.get("y2", 0)) for y in below)


def test_a_thousand_devices_are_drawn_in_powers_of_two() -> None:
    many = [line(1 << power, 0.1 * 1.02**power) for power in range(11)]
    (found,) = comparisons(many)
    root = ET.fromstring(alone(figure("speed-up", found)))
    marks = [float(each.get("cx", 0)) for each in root.iter(f"{SVG}circle") if each.find(f"{SVG}title") is not None]
    steps = [after - before for before, after in itertools.pairwise(marks)]
    assert max(steps) - min(steps) < 0.1


def test_the_parts_of_a_bar_are_as_long_as_their_times() -> None:
    root = ET.fromstring(alone(figure("step", the_comparison())))
    bars = [
        each for each in root.iter(f"{SVG}g") if each.get("class") == "measured" and each.find(f"{SVG}text") is not None
    ]
    widths = [sum(float(rect.get("width", 0)) for rect in bar.iter(f"{SVG}rect")) for bar in bars]
    assert [width / widths[0] for width in widths] == pytest.approx([1, 1.05, 1.1, 1.25], rel=1e-3)


def test_the_report_is_a_page_figures_and_a_table(tmp_path: Path) -> None:
    files = write_report([the_comparison(predicted=True)], tmp_path / "out")
    assert sorted(path.name for path in files) == [
        "1-resnet50-jax-float32-64-each-host-efficiency.svg",
        "1-resnet50-jax-float32-64-each-host-speed-up.svg",
        "1-resnet50-jax-float32-64-each-host-step.svg",
        "report.html",
        "table.txt",
    ]
    assert sorted(tmp_path.joinpath("out").iterdir()) == sorted(files)


def test_names_of_a_user_are_no_markup(tmp_path: Path) -> None:
    text = page(comparisons([line(devices, 0.1, model="train:<script>") for devices in (1, 2)]))
    assert "<script" not in text
    assert "train:&lt;script&gt;" in text


@pytest.mark.parametrize("quartiles", [[math.nan, 0.1], [0.1, math.nan], [1e-320, math.inf]])
def test_a_point_whose_range_is_not_finite_is_left_out_of_its_curve(quartiles: list[float]) -> None:
    broken = line(2, 0.1) | {"quartiles": quartiles}
    sound = [line(1, 0.1), line(4, 0.1)]
    assert len(marks_of([*sound, line(2, 0.1)])) == 3
    assert marks_of([*sound, broken]) == marks_of(sound) != []


def marks_of(found: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The marks of the points in the figure of the speed-up, with their places."""
    (comparison,) = comparisons(found)
    circles = ET.fromstring(figure("speed-up", comparison)).iter(f"{SVG}circle")
    return [each.attrib for each in circles if each.find(f"{SVG}title") is not None]


@pytest.mark.parametrize(
    "content",
    [
        '{"case": {"model": "mlp"}, "median": 0.1}',
        '{"case": {"devices": 2}}',
        '{"case": {"devices": 2}, "median": -1}',
        '{"case": {"devices": 2}, "median": "fast"}',
        '{"case": "mlp", "median": 0.1}',
        '{"case": {"devices": 2}, "median": 0.1, "interval": [0.2, 0]}',
    ],
)
def test_a_prediction_without_numbers_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "predicted.jsonl"
    path.write_text(json.dumps(predictions()[0]) + "\n" + content + "\n")
    with pytest.raises(DataError, match=r"predicted\.jsonl, line 2 is not a prediction"):
        read_predictions(path)


def test_a_report_of_lines_that_are_there_needs_no_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines.append(tmp_path / "bench.jsonl", scaling())
    (tmp_path / "predicted.jsonl").write_text("".join(json.dumps(each) + "\n" for each in predictions()))
    arguments = ["-o", str(tmp_path / "bench.jsonl"), "--report", str(tmp_path / "out")]
    assert cli.main(["bench", *arguments, "--predicted", str(tmp_path / "predicted.jsonl")]) == 0
    assert "report.html" in capsys.readouterr().err
    assert "abreast, predicted" in (tmp_path / "out" / "report.html").read_text()


def test_lines_that_are_cut_off_are_left_out_of_a_report_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, found in (("bench", scaling()), ("predicted", predictions())):
        texts = [json.dumps(each) + "\n" for each in found]
        (tmp_path / f"{name}.jsonl").write_text("".join(texts)[:-9])
    arguments = ["-o", str(tmp_path / "bench.jsonl"), "--report", str(tmp_path / "out")]
    assert cli.main(["bench", *arguments, "--predicted", str(tmp_path / "predicted.jsonl")]) == 0
    said = capsys.readouterr().err
    for name in ("bench", "predicted"):
        assert f"abreast: the last line of {tmp_path / name}.jsonl is cut off and left out\n" in said


def test_without_a_browser_png_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABREAST_BROWSER", "no-such-browser")
    with pytest.raises(AbreastError, match="no browser can draw PNG files"):
        write_report([the_comparison()], tmp_path / "out", png=True)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(AbreastError, match="cannot make the folder"):
        write_report([the_comparison()], tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"
