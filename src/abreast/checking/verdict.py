"""The result of a check, as text and as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from abreast.checking.compare import ArrayDifference, Difference, Largest, when
from abreast.checking.reasons import Reason
from abreast.plain_json import finite

_SHOWN = 4
_NOT_PYTHON = "so plain Keras here is not the script as Python alone runs it"

Outcome = Literal["equal", "differs", "refused"]


@dataclass(frozen=True)
class Verdict:
    """The result of a check. It prints as text, with the verdict in its first line.

    Attributes:
        outcome: `"equal"`, `"differs"`, or `"refused"` if abreast refused to train.
        backend: the framework, such as `"jax"`.
        devices: the names of the devices.
        num_steps: number of steps that were compared.
        num_events: number of moments at which arrays were compared.
        num_arrays: number of arrays that were compared.
        largest: the largest relative difference among the arrays that agree (`.difference`), and its place (`.where`).
        difference: the first difference that rounding does not explain, or None: `.call`, `.step`, and `.parts` with name,
            index and both values.
        reasons: likely reasons for it, the likeliest first, each with `.what` and `.hint`.
        doubt: the first relative difference above 1e-5, if it was shown to be rounding.
        in_float64: True if the verdict and `largest` come from runs in float64.
        largest_as_written: then, the largest relative difference in the script's own precision; else None.
        precision: then, that precision, such as `"float32"`.
        announced: warnings of abreast during the fit.
        taken_over: strategies of the script that both sides take over.
        deterministic_kernels: True if both sides ran with deterministic kernels of GPUs.

    Example:
        >>> from abreast.checking.compare import Largest
        >>> from abreast.checking.verdict import Verdict
        >>> verdict = Verdict("equal", "jax", ("cpu:0", "cpu:1"), 4, 9, 80, Largest(2e-7, "the bias"))  # `check` returns one
        >>> verdict.exact, verdict.devices_text
        (True, '2 simulated devices')
        >>> print(verdict)
        equal: 4 steps, 80 arrays of 9 moments on 2 simulated devices, jax are what plain Keras gives on one
        largest difference: 2.0e-07 (relative; the bias)
    """

    outcome: Outcome
    backend: str
    devices: tuple[str, ...]
    num_steps: int
    num_events: int
    num_arrays: int
    largest: Largest
    difference: Difference | None = None
    reasons: tuple[Reason, ...] = ()
    doubt: Difference | None = None  # the first difference beyond 1e-5, if a ruler or float64 shows that it is rounding
    in_float64: bool = False  # true if the verdict and `largest` come from runs in float64
    largest_as_written: Largest | None = None  # then, the largest relative difference in the script's own precision
    precision: str = ""
    announced: tuple[str, ...] = ()
    taken_over: tuple[str, ...] = ()  # strategies of the script
    deterministic_kernels: bool = False

    @property
    def exact(self) -> bool:
        """True if all arrays agree, up to rounding."""
        return self.outcome == "equal"

    @property
    def devices_text(self) -> str:
        """The number and kind of the devices, such as `2 simulated devices`."""
        count = len(self.devices)
        kind = "simulated " if count > 1 and all(name.startswith("cpu") for name in self.devices) else ""
        return f"{count} {kind}device{'' if count == 1 else 's'}"

    def __str__(self) -> str:
        """The result as text, with the verdict in its first line."""
        lines = _equal(self) if self.difference is None else _different(self, self.difference)
        lines += [f"announced: {_first_line(each)}" for each in self.announced]
        lines += [f"taken over on both sides: {each}: {_NOT_PYTHON}" for each in self.taken_over]
        return "\n".join(lines)


def _equal(verdict: Verdict) -> list[str]:
    lines = [f"equal: {_counted(verdict)} on {_devices(verdict)} are what plain Keras gives on one"]
    if verdict.largest_as_written is None:
        lines.append(_largest("", verdict.largest))
    else:
        lines.append(_largest(f" in {verdict.precision}", verdict.largest_as_written))
        lines.append(_largest(" in float64", verdict.largest))
    if verdict.in_float64 and verdict.doubt is None:
        lines.append("in float64, since half precision hides small differences")
    if verdict.doubt is not None:
        lines += _rounding_grows(verdict, verdict.doubt)
    return lines


def _largest(where: str, largest: Largest) -> str:
    return f"largest difference{where}: {largest.difference:.1e} (relative; {largest.where or 'everywhere'})"


def _rounding_grows(verdict: Verdict, doubt: Difference) -> list[str]:
    place = when(doubt.event, doubt.call, doubt.step)
    part = "" if doubt.worst is None else f" ({_part(doubt.worst)})"
    own = f"{verdict.precision} rounding" if verdict.in_float64 else "rounding"
    grows = f"{own} grows: beyond the usual bound from {place} on{part}"
    if verdict.in_float64:
        return [f"{grows}; both sides are equal in float64"]
    return [
        f"{grows}, as in plain Keras with weights moved by one rounding",
        "hint: --float64 distinguishes rounding from a difference",
    ]


def _different(verdict: Verdict, difference: Difference) -> list[str]:
    lines = [f"{verdict.outcome}: {_where(verdict.outcome, difference)} ({_devices(verdict)})"]
    lines += [f"  {_part(part)}" for part in _shown(difference)]
    if (hidden := len(difference.parts) - _SHOWN) > 0:
        lines.append(f"  and {hidden} more of the {difference.num_compared} compared there")
    if verdict.largest.where:
        lines.append(f"before that: equal, largest difference {verdict.largest.difference:.1e}")
    for number, reason in enumerate(verdict.reasons):
        kind = "reason" if number == 0 else "or"
        lines.append(f"{kind}: {reason.what}{' (the contract says so)' if reason.announced else ''}")
        lines.append(f"hint: {reason.hint}")
    return lines


def _where(outcome: Outcome, difference: Difference) -> str:
    place = when(difference.event, difference.call, difference.step)
    if difference.kind == "failure":
        after = f"after {place}" if place else "before anything was compared"
        return after if outcome == "refused" else f"the devices fail {after}"
    return f"the script takes another path at {place}" if difference.kind == "calls" else f"first at {place}"


def _shown(difference: Difference) -> list[ArrayDifference]:
    worst = difference.worst
    rest = [part for part in difference.parts if part is not worst]
    return ([worst] if worst is not None else []) + rest[: _SHOWN - 1]


def _part(part: ArrayDifference) -> str:
    place = f"[{', '.join(map(str, part.index))}]" if part.index else ""
    what = "" if part.group in ("weight", "result") else f" ({part.group})"
    return f"{part.name}{place}{what}: {part.plain:.7g} with plain Keras, {part.placed:.7g} on the devices"


def _counted(verdict: Verdict) -> str:
    return f"{verdict.num_steps} steps, {verdict.num_arrays:,} arrays of {verdict.num_events} moments"


def _devices(verdict: Verdict) -> str:
    return f"{verdict.devices_text}, {verdict.backend}"


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""


def as_data(verdict: Verdict) -> dict[str, Any]:
    """A whole verdict as data for JSON. Numbers that JSON cannot represent become text."""
    found: dict[str, Any] = finite(asdict(verdict), str)
    if verdict.difference is not None:
        difference = verdict.difference
        found["difference"]["where"] = when(difference.event, difference.call, difference.step)
        found["difference"]["variable"] = None if difference.worst is None else difference.worst.name
    return found
