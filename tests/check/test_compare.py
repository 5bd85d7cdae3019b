"""Which differences between two logs count, and their likely reasons. No framework."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.checking import log, order
from abreast.checking.compare import PRECISIONS, Difference, Ruler, compare, largest
from abreast.checking.log import Event, LogWriter
from abreast.checking.order import compare_runs
from abreast.checking.process import SideRun
from abreast.checking.reasons import Evidence, reasons
from abreast.checking.side import SideSpec
from abreast.run import RunOptions

FLOAT32 = PRECISIONS["float32"]
CALL = "fit of model"


def events(
    folder: Path, *weights: Any, batches: str = "abcdefgh", loss: float = 1.0, dtype: str = "float32"
) -> list[Event]:
    """The log of a fit with these weights, before its first step and after each."""
    folder.mkdir()
    writer = LogWriter(folder)
    for step, weight in enumerate(weights):
        arrays = {("log", "loss"): np.array(loss), ("weight", "dense/kernel"): np.asarray(weight, dtype)}
        kind = "step" if step else "begin"
        writer.add(kind, CALL, arrays, step=step, batch=batches[step] if step else None, rows="rows" if step else None)
    writer.close()
    return log.read(folder)


def test_equal_logs_have_no_difference(tmp_path: Path) -> None:
    one, other = (events(tmp_path / name, [1.0, 2.0], [1.5, 2.5]) for name in "ab")
    assert compare(one, other, FLOAT32)[0] is None


def test_a_rounding_of_a_weight_is_not_a_difference(tmp_path: Path) -> None:
    one = events(tmp_path / "a", [1.0, 2.0], [1.5, 2.5])
    other = events(tmp_path / "b", [1.0, 2.0], [1.5, np.nextafter(np.float32(2.5), 3)])
    difference, largest = compare(one, other, FLOAT32)
    assert difference is None
    assert largest.difference == pytest.approx(1e-7, rel=0.1)
    assert "step 1" in largest.where


def test_the_first_step_and_the_value_that_differ_are_named(tmp_path: Path) -> None:
    one = events(tmp_path / "a", [1.0, 2.0], [1.5, 2.5], [1.6, 2.6])
    other = events(tmp_path / "b", [1.0, 2.0], [1.5, 2.5], [1.6, 2.7])
    difference, _ = compare(one, other, FLOAT32)
    assert difference is not None and difference.worst is not None
    assert (difference.event, difference.step, difference.worst.name) == ("step", 2, "dense/kernel")
    assert difference.worst.index == (1,)
    assert difference.worst.plain == pytest.approx(2.6)
    assert difference.worst.placed == pytest.approx(2.7)


def test_a_percent_of_a_tiny_update_is_a_difference(tmp_path: Path) -> None:
    """5e-5 of 5e-3, on a weight of 1: far below 1e-4 of the weight, and a hundredth of its update."""
    one, other = events(tmp_path / "a", [1.0], [1.005]), events(tmp_path / "b", [1.0], [1.00505])
    assert compare(one, other, FLOAT32)[0] is not None


def test_a_ruler_allows_what_rounding_does_to_the_script_itself(tmp_path: Path) -> None:
    plain, moved = events(tmp_path / "a", [1.0], [2.0]), events(tmp_path / "m", [1.0], [2.001])
    ruler = Ruler.of(plain, moved)
    assert compare(plain, events(tmp_path / "b", [1.0], [2.01]), FLOAT32, ruler)[0] is None
    assert compare(plain, events(tmp_path / "c", [1.0], [2.1]), FLOAT32, ruler)[0] is not None


def test_nan_differs_from_a_number(tmp_path: Path) -> None:
    difference, _ = compare(events(tmp_path / "a", [1.0]), events(tmp_path / "b", [np.nan]), FLOAT32)
    assert difference is not None


def test_two_infinities_are_equal(tmp_path: Path) -> None:
    assert compare(events(tmp_path / "a", [np.inf]), events(tmp_path / "b", [np.inf]), FLOAT32)[0] is None


def test_another_order_of_calls_is_a_separate_kind_of_difference(tmp_path: Path) -> None:
    one, other = events(tmp_path / "a", [1.0], [2.0]), events(tmp_path / "b", [1.0], [2.0])
    difference, _ = compare(one, [other[0], replace(other[1], call="evaluate of model")], FLOAT32)
    assert difference is not None and difference.kind == "calls"


def test_a_large_array_is_sampled_and_its_norm_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "EVENT_BYTES", 400)
    weights = np.ones(10_000)
    changed = weights.copy()
    changed[1] = 900.0
    one, other = events(tmp_path / "a", weights), events(tmp_path / "b", changed)
    assert one[0].entries[1].values.size < 200
    difference, _ = compare(one, other, FLOAT32)
    assert difference is not None and difference.worst is not None and difference.worst.name == "dense/kernel"


def test_the_largest_difference_of_all_counts_what_is_not_allowed_too(tmp_path: Path) -> None:
    one = events(tmp_path / "a", [1.0, 2.0], [1.0, 2.5], [1.0, 3.0])
    other = events(tmp_path / "b", [1.0, 2.0], [1.0, 2.6], [1.0, 3.01])
    found = largest(one, other)
    assert found.difference == pytest.approx(0.04, rel=1e-3)
    assert found.where == "dense/kernel, fit of model, step 1"


def test_a_verdict_in_float64_has_the_difference_in_float32_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding grows here: the weight differs by 3 % at the second step in float32, by 1e-11 in float64."""

    def run(name: str, last: float, dtype: str) -> SideRun:
        models = {
            "model 1": {
                "dtypes": [dtype],
                "random": [],
                "own_layers": [],
                "own_methods": [],
                "batch_norm": [],
                "variables": {},
            }
        }
        found = events(tmp_path / name, [1.0], [2.0], [3.0 + last], dtype=dtype)
        return SideRun(0, found, {"models": models, "calls": {}, "backend": "jax", "devices": ["cpu:0", "cpu:1"]}, None)

    runs = {name: run(name, 0.0, "float32") for name in ("plain", "again", "moved")}
    runs |= {"placed": run("placed", 0.1, "float32")}
    runs |= {name: run(name, last, "float64") for name, last in (("plain64", 0.0), ("placed64", 3e-11))}
    monkeypatch.setattr(order, "run_side", lambda side, *_, **__: runs[Path(side.folder).name])
    side = SideSpec("train.py", (), False, RunOptions(cpu_devices=2), True, 2, "")
    verdict = order.check_script(side, lambda _: None)
    assert (verdict.outcome, verdict.in_float64, verdict.precision) == ("equal", True, "float32")
    assert str(verdict).splitlines()[1:] == [
        "largest difference in float32: 3.3e-02 (relative; dense/kernel, fit of model, step 2)",
        "largest difference in float64: 1.0e-11 (relative; dense/kernel, fit of model, step 2)",
        "float32 rounding grows: beyond the usual bound from fit of model, step 2 on (dense/kernel[0]: 3 with plain Keras, "
        "3.1 on the devices); both sides are equal in float64",
    ]


FACTS = {"backend": "torch", "models": {}, "calls": {CALL: {"callbacks": ["Mine"], "draws": True, "own_source": True}}}
RUN = SideRun(0, [], FACTS, None)


def first_reason(difference: Difference, repeats: bool = True, **facts: Any) -> str:
    run = replace(RUN, facts=FACTS | facts)
    return reasons(Evidence(difference, run, run, repeats))[0].name


def test_another_batch_is_the_first_reason() -> None:
    difference = Difference("values", CALL, "step", 3, same_batch=False, same_rows=False)
    assert first_reason(difference) == "source draws"


def test_a_script_that_does_not_repeat_has_no_other_reason() -> None:
    assert first_reason(Difference("values", CALL, "step", 3, same_batch=False), repeats=False) == "does not repeat"


def test_the_batch_of_an_earlier_step_is_found(tmp_path: Path) -> None:
    one = events(tmp_path / "a", [1.0], [2.0], [3.0])
    other = events(tmp_path / "b", [1.0], [2.0], [3.5], batches=".aa")
    difference, _ = compare([replace(one[0]), replace(one[1], batch="a"), one[2]], other, FLOAT32)
    assert difference is not None and difference.same_batch is False and difference.shifted == -1


REFUSAL = {"kind": "ModelError", "message": "hooks on gradients are refused\nhint: leave them out", "refused": True}


def never_again(moves: bool) -> SideRun:
    raise AssertionError("a refusal needs no further run")


@pytest.mark.parametrize("steps", [0, 1])
def test_a_refusal_is_the_verdict_and_its_only_reason(tmp_path: Path, steps: int) -> None:
    """A refused script ends early, so the final state of its model is not that of plain Keras."""
    random = {"models": {"model 1": {name: ["dropout"] for name in ("random", "own_layers", "own_methods", "dtypes")}}}
    run = replace(RUN, facts=FACTS | random)
    plain = events(tmp_path / "a", [1.0], [2.0], [3.0])
    end = replace(plain[0], kind="end", call="model (model 1)")
    refused = replace(run, events=[*plain[:steps], end], error=REFUSAL)
    verdict = compare_runs(
        "train.py", replace(run, events=[*plain, replace(plain[2], kind="end")]), refused, never_again
    )
    assert verdict.outcome == "refused"
    assert [reason.name for reason in verdict.reasons] == ["refused"]
    place = "before anything was compared" if steps == 0 else "after fit of model, before its first step"
    first, *rest = (line for line in str(verdict).splitlines() if not line.startswith("before that: "))
    assert first == f"refused: {place} (0 devices, torch)"
    assert rest == ["reason: abreast refuses it: hooks on gradients are refused", "hint: leave them out"]


def test_a_difference_before_a_refusal_counts(tmp_path: Path) -> None:
    plain, other = events(tmp_path / "a", [1.0], [2.0]), events(tmp_path / "b", [1.5])
    refused = replace(RUN, events=other, error=REFUSAL)
    verdict = compare_runs("train.py", replace(RUN, events=plain), refused, lambda _: replace(RUN, events=plain))
    assert (verdict.outcome, verdict.reasons[0].name) == ("differs", "beginning")
