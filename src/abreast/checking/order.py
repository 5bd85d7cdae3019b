"""The order of a check: both sides, then, where they differ, the plain one again and once with rounding, and the reasons.

Where no reason is known, both sides run in float64: a choice between two nearly equal numbers (a maximum, a ReLU) turns
rounding into a difference at one step, which random moves of the weights seldom hit. So do scripts in half precision that are
equal as far as that can tell.

Imports `process`, `compare`, `reasons` and `verdict`.
"""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from abreast.checking.compare import PRECISIONS, Difference, Largest, Precision, Ruler, coarsest, compare
from abreast.checking.process import Run, Stdin, run_side
from abreast.checking.reasons import Evidence, Reason, reasons
from abreast.checking.side import Side
from abreast.checking.verdict import Outcome, Verdict
from abreast.errors import AbreastError, LaunchError

_NO_ROUNDING = 1e3  # times what is allowed of a loss, at a first step


def check_script(side: Side, tell: Callable[[str], None]) -> Verdict:
    """Run a script on both sides, as `side` says, and compare. Raises `LaunchError` where there is nothing to compare."""
    with tempfile.TemporaryDirectory(prefix="abreast-check-") as folder:
        return _Check(side, Path(folder), tell).verdict()


class _Check:
    def __init__(self, side: Side, folder: Path, tell: Callable[[str], None]) -> None:
        self._side, self._folder, self._tell = side, folder, tell
        self._stdin = Stdin()

    def verdict(self) -> Verdict:
        plain = self._run("plain", "running the script with plain Keras on one device", placed=False)
        if plain.error is not None and not plain.events:
            raise _plain_failed(plain)
        placed = self._run("placed", f"running it on {self._where()}", placed=True)
        verdict = compare_runs(self._side.script, plain, placed, self.again)
        precision = _precision(plain)
        text = ""
        if precision == PRECISIONS["float32"] and [reason.name for reason in verdict.reasons] == ["unknown"]:
            text = "no known reason; running plain Keras in float64: is it rounding?"
        elif precision.result > PRECISIONS["float32"].result and verdict.outcome == "equal":
            text = "half precision hides what is small; running plain Keras in float64"
        return self._in_float64(verdict, precision, text) if text else verdict

    def _in_float64(self, verdict: Verdict, precision: Precision, text: str) -> Verdict:
        """That of both sides in float64, as far as the script can compute in it."""
        plain = self._run("plain64", text, placed=False, float64=True, shown=False)
        text = f"running it in float64 on {self._where()}"
        placed = self._run("placed64", text, placed=True, float64=True, shown=False)
        is_whole = plain.error is None and len(plain.events) >= verdict.num_events
        finer = _precision(plain)  # layers that ask for a type of their own keep it
        if not is_whole or finer.result >= precision.result:
            return verdict
        difference, largest = _first(plain, placed, finer)
        if difference is None:  # what differed was rounding that took another way at a branch
            equal = replace(verdict, outcome="equal", largest=largest, difference=None, reasons=(), in_float64=True)
            return replace(equal, doubt=verdict.difference or verdict.doubt)
        if verdict.difference is not None:
            return verdict
        return compare_runs(self._side.script, plain, placed, functools.partial(self.again, float64=True))

    def again(self, moves: bool, float64: bool = False) -> Run:
        options = {"placed": False, "moves": moves, "shown": False, "float64": float64 or self._side.float64}
        if moves:
            text = "running plain Keras with weights moved by one rounding: what does rounding do to this script?"
            return self._run("moved", text, **options)
        return self._run("again", "they differ; running plain Keras again: does it repeat?", **options)

    def _run(self, name: str, text: str, *, shown: bool = True, **changes: Any) -> Run:
        self._tell(text)
        side = replace(self._side, folder=str(self._folder / name), **changes)
        return run_side(side, self._stdin, shown=shown)

    def _where(self) -> str:
        options = self._side.options
        if options.cpu_devices is not None:
            return f"{options.cpu_devices} simulated devices"
        return f"devices {options.devices}"


def compare_runs(script: str, plain: Run, placed: Run, again: Callable[[bool], Run]) -> Verdict:
    """The verdict on two runs. `again` runs the plain side once more: as it was, or with its weights moved."""
    precision = _precision(plain)
    difference, largest = _first(plain, placed, precision)
    if difference is None and plain.error is not None:
        raise _plain_failed(plain)
    if not plain.events and difference is None:
        raise LaunchError(
            f"{script} computed nothing that can be compared",
            "fit, train_on_batch, evaluate and predict of Keras models are; a loop of your own is not seen",
        )
    repeats, doubt = True, None
    if difference is not None and difference.kind != "failure":
        repeats = _repeats(plain, again(False), difference, precision)
        if repeats and _may_be_rounding(difference):
            doubt = difference
            difference, largest = _first(plain, placed, precision, Ruler.of(plain.events, again(True).events))
    return _verdict(plain, placed, difference, largest, repeats, doubt)


def _repeats(plain: Run, again: Run, difference: Difference, precision: Precision) -> bool:
    """Whether plain Keras, run twice, agrees with itself up to where the devices differ."""
    found, _ = compare(plain.events, again.events, precision)
    return found is None or not _not_after(plain, found, difference)


def _plain_failed(plain: Run) -> AbreastError:
    assert plain.error is not None
    message = f"the script fails with plain Keras on one device: {plain.error['kind']}: {plain.error['message']}"
    return LaunchError(message, "there is nothing to compare with: let it run without abreast first")


def _precision(plain: Run) -> Precision:
    return coarsest(dtype for facts in plain.facts.get("models", {}).values() for dtype in facts["dtypes"])


def _first(
    plain: Run, placed: Run, precision: Precision, ruler: Ruler | None = None
) -> tuple[Difference | None, Largest]:
    """The first difference; that one side failed, or went on longer, comes after all that both did."""
    difference, largest = compare(plain.events, placed.events, precision, ruler)
    if difference is not None:
        return difference, largest
    if _kind(placed) != _kind(plain):
        last = placed.events[-1] if placed.events else None
        call, step = (last.call, last.step) if last is not None else ("the script", 0)
        return Difference("failure", call, last.kind if last is not None else "", step), largest
    if len(plain.events) != len(placed.events):
        longer = max(plain.events, placed.events, key=len)[min(len(plain.events), len(placed.events))]
        who = "plain Keras" if len(plain.events) > len(placed.events) else "the placed side"
        return Difference("calls", longer.call, longer.kind, longer.step, note=f"only {who} did this"), largest
    return None, largest


def _kind(run: Run) -> str | None:
    return None if run.error is None else str(run.error["kind"])


def _may_be_rounding(difference: Difference) -> bool:
    """Whether it is worth a run: what is far off at a first step is not what rounding has grown to."""
    if difference.kind != "values" or difference.same_batch is False:
        return False
    first = difference.event == "step" and difference.step == 1
    if first and any(part.group == "log" and part.excess > _NO_ROUNDING for part in difference.parts):
        return False
    return all(math.isfinite(part.difference) and not part.name.endswith("learning_rate") for part in difference.parts)


def _not_after(plain: Run, one: Difference, other: Difference) -> bool:
    order = {event.key: number for number, event in enumerate(plain.events)}
    places = [order.get((each.event, each.call, each.step), len(order)) for each in (one, other)]
    return places[0] <= places[1]


def _verdict(
    plain: Run, placed: Run, difference: Difference | None, largest: Largest, repeats: bool, doubt: Difference | None
) -> Verdict:
    found: tuple[Reason, ...] = ()
    outcome: Outcome = "equal"
    if difference is not None:
        found = tuple(reasons(Evidence(difference, plain, placed, repeats)))
        outcome = "refused" if found[0].name == "refused" else "differs"
    return Verdict(
        outcome=outcome,
        backend=placed.facts.get("backend", ""),
        devices=tuple(placed.facts.get("devices", ())),
        num_steps=sum(event.kind == "step" for event in plain.events),
        num_events=len(plain.events),
        num_arrays=sum(len(event.entries) for event in plain.events),
        largest=largest,
        difference=difference,
        reasons=found,
        doubt=doubt if difference is None else None,
        announced=tuple(placed.facts.get("announced", ())),
    )
