"""The runs of a check, in order: both sides; if they differ, the plain side again, and once with rounded weights.

If no reason is known then, both sides run in float64: a choice between two nearly equal numbers (a maximum, a ReLU) can turn
rounding into a difference at one step, and random moves of the weights seldom reproduce that. Scripts in half precision
that are equal at that precision run in float64 too.
"""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from abreast import deterministic
from abreast.checking.compare import (
    PRECISIONS,
    Difference,
    Largest,
    Precision,
    Ruler,
    coarsest,
    compare,
    largest,
    name_of,
)
from abreast.checking.process import SideRun, Stdin, run_side
from abreast.checking.reasons import Evidence, Reason, reasons
from abreast.checking.side import SideSpec
from abreast.checking.verdict import Outcome, Verdict
from abreast.errors import AbreastError, LaunchError

_NO_ROUNDING = (
    1e3  # a first step's loss that differs by more than this multiple of the allowed difference is not rounding
)


def check_script(side: SideSpec, tell: Callable[[str], None], *, shown: bool = True) -> Verdict:
    """Run the script of `side` on both sides, and compare. `shown`: the output of the first two runs is shown.

    Raises `LaunchError` if there is nothing to compare.
    """
    with tempfile.TemporaryDirectory(prefix="abreast-check-") as folder:
        return _Check(side, Path(folder), tell, shown).verdict()


class _Check:
    def __init__(self, side: SideSpec, folder: Path, tell: Callable[[str], None], shown: bool) -> None:
        self._side, self._folder, self._tell, self._shown = side, folder, tell, shown
        self._stdin = Stdin()

    def verdict(self) -> Verdict:
        if self._side.options.on_gpus():
            self._tell(deterministic.SAID)
        plain = self._run("plain", "running the script with plain Keras on one device", placed=False)
        if plain.error is not None and not plain.events:
            raise _plain_failed(plain, self._side.options.on_gpus())
        placed = self._run("placed", f"running it on {self._where()}", placed=True, printed=plain.printed)
        verdict = compare_runs(self._side.script, plain, placed, self.again)
        precision = _precision(plain)
        text = ""
        if precision == PRECISIONS["float32"] and _is_unexplained(verdict):
            text = "no certain reason; running plain Keras in float64, to see whether it is rounding"
        elif precision.result > PRECISIONS["float32"].result and verdict.outcome == "equal":
            text = "half precision hides small differences; running plain Keras in float64"
        return self._in_float64(verdict, plain, placed, text) if text else verdict

    def _in_float64(self, verdict: Verdict, plain: SideRun, placed: SideRun, text: str) -> Verdict:
        """The verdict on both sides in float64; the given verdict if the script cannot compute in float64."""
        precision = _precision(plain)
        plain64 = self._run("plain64", text, placed=False, float64=True, shown=False)
        text = f"running it in float64 on {self._where()}"
        placed64 = self._run("placed64", text, placed=True, float64=True, shown=False)
        is_whole = plain64.error is None and len(plain64.events) >= verdict.num_events
        finer = _precision(plain64)  # not always float64: layers with an explicit type keep it
        if not is_whole or finer.result >= precision.result:
            return verdict
        difference, largest64 = _first(plain64, placed64, finer)
        if difference is None:  # the difference was rounding that a branch amplified
            return replace(
                verdict,
                outcome="equal",
                difference=None,
                reasons=(),
                in_float64=True,
                largest=largest64,
                largest_as_written=largest(plain.events, placed.events),
                precision=name_of(precision),
                doubt=_first(plain, placed, precision)[0],
            )
        if verdict.difference is not None:
            return verdict
        return compare_runs(self._side.script, plain64, placed64, functools.partial(self.again, float64=True))

    def again(self, moves: bool, float64: bool = False) -> SideRun:
        options = {"placed": False, "moves": moves, "shown": False, "float64": float64 or self._side.float64}
        if moves:
            text = "running plain Keras with weights moved by one rounding, to measure the effect of rounding on this script"
            return self._run("moved", text, **options)
        return self._run("again", "they differ; running plain Keras again, to see whether it repeats itself", **options)

    def _run(self, name: str, text: str, *, shown: bool = True, **changes: Any) -> SideRun:
        self._tell(text)
        side = replace(self._side, folder=str(self._folder / name), **changes)
        return run_side(side, self._stdin, shown=shown and self._shown)

    def _where(self) -> str:
        options = self._side.options
        if options.cpu_devices is not None:
            return f"{options.cpu_devices} simulated devices"
        return f"devices {options.devices}"


def compare_runs(script: str, plain: SideRun, placed: SideRun, again: Callable[[bool], SideRun]) -> Verdict:
    """The verdict on two runs. `again` runs the plain side once more: unchanged, or with its weights moved by a rounding."""
    precision = _precision(plain)
    difference, most = _first(plain, placed, precision)
    if difference is None and plain.error is not None:
        raise _plain_failed(plain)
    if not plain.events and difference is None:
        raise LaunchError(
            f"{script} computed nothing that can be compared",
            "only fit, train_on_batch, evaluate and predict of Keras models are compared, not other training loops",
        )
    repeats, doubt = True, None
    if difference is not None and difference.kind != "failure":
        repeats = _repeats(plain, again(False), difference, precision)
        if repeats and _may_be_rounding(difference):
            doubt = difference
            difference, most = _first(plain, placed, precision, Ruler.of(plain.events, again(True).events))
    return _verdict(plain, placed, difference, most, repeats, doubt)


def _repeats(plain: SideRun, again: SideRun, difference: Difference, precision: Precision) -> bool:
    """True if two runs of plain Keras agree up to the event at which the devices differ."""
    found, _ = compare(plain.events, again.events, precision)
    return found is None or not _not_after(plain, found, difference)


def _plain_failed(plain: SideRun, on_gpus: bool = False) -> AbreastError:
    """The error of a failed plain side. `on_gpus`: its environment asks for deterministic kernels."""
    assert plain.error is not None
    if plain.error["refused"]:  # no framework, for instance; the hint is part of the message
        return LaunchError(plain.error["message"])
    message = f"the script fails with plain Keras on one device: {plain.error['kind']}: {plain.error['message']}"
    hint = "there is nothing to compare with: make the script work without abreast first"
    if (way_out := _way_out(plain, on_gpus)) is not None:
        hint += f"; if deterministic kernels refuse what it does, {way_out}"
    return LaunchError(message, hint)


def _way_out(plain: SideRun, on_gpus: bool) -> str | None:
    """The remedy if deterministic kernels may be the cause of the failure; else None.

    A script that fails before it imports Keras has no facts: then TensorFlow's message tells.
    """
    assert plain.error is not None
    is_told = on_gpus and not plain.facts and "determinis" in plain.error["message"].lower()
    if plain.facts.get("deterministic_kernels", is_told):
        return deterministic.way_out(plain.facts.get("backend", "tensorflow"))
    return None


def _precision(plain: SideRun) -> Precision:
    return coarsest(dtype for facts in plain.facts.get("models", {}).values() for dtype in facts["dtypes"])


def _first(
    plain: SideRun, placed: SideRun, precision: Precision, ruler: Ruler | None = None
) -> tuple[Difference | None, Largest]:
    """The first difference. A failure or additional events of one side count after all events of both sides.

    A side that fails has not reached the end of the script, so the final state of its models is not compared.
    """
    fails = _kind(placed) != _kind(plain)
    reached = [event for event in placed.events if event.kind != "end"] if fails else placed.events
    difference, most = compare(plain.events, reached, precision, ruler)
    if difference is not None:
        return difference, most
    if fails:
        last = reached[-1] if reached else None
        call, step = (last.call, last.step) if last is not None else ("", 0)
        return Difference("failure", call, last.kind if last is not None else "", step), most
    if len(plain.events) != len(placed.events):
        longer = max(plain.events, placed.events, key=len)[min(len(plain.events), len(placed.events))]
        side = "plain Keras" if len(plain.events) > len(placed.events) else "the placed side"
        return Difference("calls", longer.call, longer.kind, longer.step, note=f"only {side} did this"), most
    return None, most


def _kind(run: SideRun) -> str | None:
    return None if run.error is None else str(run.error["kind"])


def _is_unexplained(verdict: Verdict) -> bool:
    """True if no reason is known, or only the script's own `train_step`, in which abreast found no fault."""
    guesses = [reason.name for reason in verdict.reasons if not reason.announced]
    return guesses in (["unknown"], ["own step"])


def _may_be_rounding(difference: Difference) -> bool:
    """True if rounding may explain the difference. A large difference at a first step cannot be rounding that has grown."""
    if difference.kind != "values" or difference.same_batch is False:
        return False
    first = difference.event == "step" and difference.step == 1
    if first and any(part.group == "log" and part.excess > _NO_ROUNDING for part in difference.parts):
        return False
    return all(math.isfinite(part.difference) and not part.name.endswith("learning_rate") for part in difference.parts)


def _not_after(plain: SideRun, one: Difference, other: Difference) -> bool:
    order = {event.key: number for number, event in enumerate(plain.events)}
    places = [order.get((each.event, each.call, each.step), len(order)) for each in (one, other)]
    return places[0] <= places[1]


def _verdict(
    plain: SideRun,
    placed: SideRun,
    difference: Difference | None,
    most: Largest,
    repeats: bool,
    doubt: Difference | None,
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
        largest=most,
        difference=difference,
        reasons=found,
        doubt=doubt if difference is None else None,
        announced=tuple(placed.facts.get("announced", ())),
        taken_over=tuple(plain.facts.get("taken_over", ())),
        deterministic_kernels=all(side.facts.get("deterministic_kernels", False) for side in (plain, placed)),
    )
