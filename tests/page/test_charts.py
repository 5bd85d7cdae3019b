"""Charts, their colours and their numbers, without a browser."""

from __future__ import annotations

import itertools
import re
from importlib import resources

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast import units
from abreast.page import charts, palette, tracks
from abreast.spans import MAIN, Span
from abreast.timeline import step_parts

# Machado, Oliveira and Fernandes, IEEE TVCG 15 (2009), severity 1.0: what readers without one kind of cone see.
_SEEN_BY = {
    "all": np.eye(3),
    "protanopes": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopes": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopes": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def colours(scheme: str) -> dict[str, str]:
    """The custom properties of the style, for light or for dark."""
    style = (resources.files("abreast.page") / "palette.css").read_text(encoding="utf-8")
    light, _, rest = style.partition("@media (prefers-color-scheme: dark)")
    dark = rest.partition("* {")[0]
    texts = [light] if scheme == "light" else [light, dark]
    return {name: value for text in texts for name, value in re.findall(r"--([\w-]+): (#[0-9a-f]{6})", text)}


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    result: np.ndarray = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return result


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(linear(colour) @ _TO_XYZ[1]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(colour: str, matrix: np.ndarray) -> np.ndarray:
    xyz = _TO_XYZ @ np.clip(matrix @ linear(colour), 0, 1) / [0.9505, 1.0, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_on_every_colour(scheme: str) -> None:
    found = colours(scheme)
    assert min(contrast(found[f"c{number}"], found[f"i{number}"]) for number in range(palette.NUM_COLOURS)) >= 4.5
    papers = [found[name] for name in ("paper", "panel", "bad-paper", "good-paper")]
    assert min(contrast(found[word], paper) for word in ("ink", "soft", "bad", "good") for paper in papers) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("readers", _SEEN_BY)
def test_any_two_colours_are_distinguishable(scheme: str, readers: str) -> None:
    found = colours(scheme)
    seen = [lab(found[f"c{number}"], np.array(_SEEN_BY[readers])) for number in range(palette.NUM_COLOURS)]
    distance = min(float(np.linalg.norm(one - other)) for one, other in itertools.combinations(seen, 2))
    assert distance > 12  # measured 13.1; 2.4 with an earlier purple beside blue


def test_each_part_of_a_step_has_a_colour_of_its_own_and_spans_have_that_of_their_part() -> None:
    parts = palette.colour_classes(step_parts.LABELS.values())
    assert len(set(parts.values())) == len(parts)
    spans = palette.colour_classes(["wait", "put", "compute", "all-reduce", "on_train_batch_end", "read", "step 3"])
    assert list(spans.values())[:5] == [parts[name] for name in step_parts.LABELS.values()][:5]
    assert set(palette.colour_classes(["computing", step_parts.COMPUTE_WITH_ALL_REDUCE]).values()) == {spans["compute"]}


def test_names_beyond_the_colours_are_grey() -> None:
    classes = palette.colour_classes(f"kernel {letter}" for letter in "abcdefghij")
    assert list(classes.values()) == [f"c{number}" for number in range(7)] + ["c7"] * 3


def test_ticks_are_round_and_few() -> None:
    assert charts.ticks(0, 92.1, 5) == [0, 20, 40, 60, 80]
    assert charts.ticks(0, 1, 4) == [0, 0.5, 1]
    assert charts.ticks(0, 3 * 2.0**30, 4, unit=2.0**30) == [0, 2.0**30, 2 * 2.0**30, 3 * 2.0**30]
    assert charts.ticks(5, 5, 4) == [5]


@given(st.floats(1e-9, 1e12), st.integers(1, 40))
def test_ticks_stay_in_range_and_count(high: float, most: int) -> None:
    found = charts.ticks(0, high, most)
    assert 1 <= len(found) <= most + 1
    assert found[0] == 0 and found[-1] <= high * (1 + 1e-6)


def test_thinned_lines_keep_their_peaks() -> None:
    points = [(float(x), 0.5) for x in range(10_000)]
    points[4321], points[7654] = (4321.0, 1.0), (7654.0, 0.0)
    found = charts.thinned(points, 400)
    assert len(found) <= 402
    assert (4321.0, 1.0) in found and (7654.0, 0.0) in found
    assert found == sorted(found)


def test_spans_that_overlap_lie_below_one_another() -> None:
    outer, inner, later = Span(MAIN, "a", 0, 10, {}), Span(MAIN, "b", 2, 5, {}), Span(MAIN, "c", 10, 12, {})
    assert tracks.lanes([later, inner, outer]) == [[outer, later], [inner]]
    deep = [Span(MAIN, "d", start, 100, {}) for start in range(50)]
    assert len(tracks.lanes(deep)) == 8
    assert sum(map(len, tracks.lanes(deep))) == 50


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0921, "92.1 ms"),
        (0, "0 ms"),
        (0.9999, "1.00 s"),
        (123.4, "123 s"),
        (4.2e-5, "42.0 µs"),
        (float("nan"), "unknown"),
    ],
)
def test_durations_have_three_digits_and_a_unit(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4530, "1.26 h"),
        (360_000, "100 h"),
        (133.2, "2.22 min"),
        (59.98, "1.00 min"),
        (38.2, "38.2 s"),
        (0.0921, "92.1 ms"),
        (0, "0 ms"),
        (float("nan"), "unknown"),
    ],
)
def test_long_durations_are_in_hours_and_minutes(seconds: float, text: str) -> None:
    assert units.long_duration(seconds) == text


def test_a_column_of_durations_lines_up() -> None:
    assert [units.duration(part, like=0.0921) for part in (0.0382, 0.0001, 0.0)] == ["38.2 ms", "0.1 ms", "0.0 ms"]
    assert [units.duration(part, like=0.122) for part in (0.1216, 0.0003)] == ["121.6 ms", "0.3 ms"]


def test_a_range_of_durations_has_its_unit_once() -> None:
    assert units.duration_range(0.09, 0.1312, like=0.125) == "90.0 to 131.2 ms"


def test_other_numbers_have_units_too() -> None:
    assert (units.byte_count(616_562_688), units.byte_count(0), units.byte_count(700)) == (
        "588 MiB",
        "0 bytes",
        "700 bytes",
    )
    assert (units.share(0.4147), units.share(0.004), units.share(0)) == ("41%", "0.4%", "0%")
    assert (units.count(11118.2), units.count(42.123), units.count(8)) == ("11,118", "42.1", "8")


def test_predictions_and_measurements_are_drawn_differently() -> None:
    parts = {"computing": 1.0}
    measured = charts.stacked_bar(charts.Bar("2", parts), {"computing": "c2"}, units.duration)
    predicted = charts.stacked_bar(charts.Bar("2", parts, predicted=True), {"computing": "c2"}, units.duration)
    assert 'class="bar"' in measured and 'class="bar predicted"' in predicted
