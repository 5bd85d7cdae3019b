"""The likely reasons why two sides differ, derived from the difference and from facts about the script.

Each rule checks a condition and returns a reason that names its evidence. No reason is certain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from abreast import deterministic
from abreast.backend.registry import SEE_ALL_ROWS
from abreast.checking.compare import Difference
from abreast.checking.process import SideRun

_DIFFERENCES, _OWN_CODE = "docs/reference/differences.md", "docs/concepts/own-code.md"


@dataclass(frozen=True)
class Reason:
    """A likely reason: `name` for programs, `what` for people, and `hint` with a remedy.

    `announced`: the contract states that these results cannot be equal.
    """

    name: str
    what: str
    hint: str
    announced: bool = False


@dataclass(frozen=True)
class Evidence:
    """The input of every rule. `repeats`: true if two runs of plain Keras agree."""

    difference: Difference
    plain: SideRun
    placed: SideRun
    repeats: bool

    def models(self, what: str) -> list[str]:
        """The names that are listed under the fact `what`, in all models of the placed side."""
        found = {name for facts in self.placed.facts.get("models", {}).values() for name in facts[what]}
        return sorted(found)

    def call(self, what: str) -> Any:
        """The fact `what` about the call that differs, from either side."""
        sides = (run.facts.get("calls", {}).get(self.difference.call, {}) for run in (self.placed, self.plain))
        return next((facts[what] for facts in sides if facts.get(what)), None)

    @property
    def sees_all_rows(self) -> bool:
        return self.placed.facts.get("backend") in SEE_ALL_ROWS

    @property
    def on_gpus(self) -> bool:
        return any(name.startswith("gpu") for name in self.placed.facts.get("devices", ()))

    def owner(self, name: str) -> list[Any] | None:
        """Facts of a variable: its layer's name, whether the layer is the user's, and whether the variable is trained."""
        models = self.placed.facts.get("models", {}).values()
        return next((facts["variables"][name] for facts in models if name in facts["variables"]), None)


Rule = Callable[[Evidence], Reason | None]


def reasons(evidence: Evidence) -> list[Reason]:
    """The reasons that apply, likeliest first; without any, one that states this. A refusal is always the only reason."""
    if not evidence.repeats:
        return [_does_not_repeat(evidence)]
    if (refusal := _refusal(evidence)) is not None:
        return [refusal]
    found = [reason for rule in _RULES if (reason := rule(evidence)) is not None]
    return found or [_UNKNOWN]


_NO_REPEAT = "the script itself does not repeat: two runs of plain Keras on one device differ as early as this"
_SEED = (
    "seed every generator (keras.utils.set_random_seed), never by the time, and read no file that an earlier run wrote"
)
_UNKNOWN = Reason(
    "unknown",
    "no known reason: the batch and the weights before it are the same, and the results on several devices differ",
    "please report it with this output; --float64 shows how large it is without rounding",
)


def _does_not_repeat(evidence: Evidence) -> Reason:
    what, hint = _NO_REPEAT, _SEED
    if evidence.on_gpus:
        what += f", by something unseeded or by {deterministic.NO_FORM}"
        hint += "; if that is so already, try --cpu-devices 2"
    return Reason("does not repeat", what, hint)


def _refusal(evidence: Evidence) -> Reason | None:
    error = evidence.placed.error
    if evidence.difference.kind != "failure" or error is None or not error["refused"]:
        return None
    message, _, hint = error["message"].partition("\nhint: ")
    return Reason("refused", f"abreast refuses it: {message}", hint or f"see {_DIFFERENCES}")


def _failure(evidence: Evidence) -> Reason | None:
    error = evidence.placed.error
    if evidence.difference.kind != "failure" or error is None:
        return None
    return Reason("failed", f"{error['kind']}: {error['message']}", "its traceback is above")


def _calls(evidence: Evidence) -> Reason | None:
    if evidence.difference.kind != "calls":
        return None
    return Reason(
        "other calls",
        f"the script did other things on the devices ({evidence.difference.note})",
        "look for code that depends on the number of devices, or on results that differ by a rounding",
    )


def _data(evidence: Evidence) -> Reason | None:
    difference = evidence.difference
    if difference.same_batch is not False:
        return None
    if difference.shifted:
        way = "earlier" if difference.shifted < 0 else "later"
        text = f"the batch of this step is that of {abs(difference.shifted)} step(s) {way} with plain Keras"
        hint = "a source that is read ahead, or read twice: try --prefetch 0"
    elif difference.num_rows[0] != difference.num_rows[1]:
        text = (
            f"the batch has {difference.num_rows[0]} rows with plain Keras and {difference.num_rows[1]} on the devices"
        )
        hint = "batch_size is that of all devices together: it must not depend on their number"
    elif difference.same_rows:
        text, hint = "the batch has the same rows in another order", "seed the shuffling, and shuffle in one place"
    else:
        text, hint = (
            "the batch has other rows",
            "try --prefetch 0: a source that is read ahead of the step draws earlier",
        )
    if evidence.call("draws") and evidence.call("own_source"):
        return Reason("source draws", f"{text}; its source draws from NumPy's global generator", _OWN_GENERATOR)
    if names := evidence.call("callbacks"):
        text += f"; callbacks act between batches ({', '.join(names)})"
    return Reason("data", text, hint)


_OWN_GENERATOR = "give the source a generator of its own: numpy.random.default_rng(seed); or try --prefetch 0"


def _learning_rate(evidence: Evidence) -> Reason | None:
    part = next((part for part in evidence.difference.parts if part.name.endswith("learning_rate")), None)
    if part is None:
        return None
    return Reason(
        "learning rate",
        f"the learning rate is {part.plain:.6g} with plain Keras and {part.placed:.6g} on the devices",
        "set it by the global batch size, never by the number of devices: batch_size is that of all devices together",
    )


def _beginning(evidence: Evidence) -> Reason | None:
    if evidence.difference.event != "begin":
        return None
    return Reason(
        "beginning",
        "the weights differ before the first step of this fit",
        "look at what the script does before this fit: initial values, loaded files, a training loop of its own",
    )


def _local_norm(evidence: Evidence) -> Reason | None:
    layers = evidence.models("batch_norm")
    if "local" not in evidence.placed.facts.get("batch_norm", ()) or not layers:
        return None
    return Reason(
        "local BatchNormalization",
        f'batch_norm="local" normalizes by the rows of each device ({_some(layers)})',
        'batch_norm="global" normalizes as one device does',
        announced=True,
    )


def _random(evidence: Evidence) -> Reason | None:
    layers = evidence.models("random")
    if not layers or evidence.sees_all_rows or evidence.difference.call.startswith(("evaluate", "predict")):
        return None
    return Reason(
        "random layers",
        f"random layers draw other numbers on each device ({_some(layers)})",
        "this cannot be equal on TensorFlow and PyTorch; --no-random compares the rest",
        announced=True,
    )


def _rows(evidence: Evidence) -> Reason | None:
    layers = evidence.models("own_layers")
    if not layers or evidence.sees_all_rows:
        return None
    return Reason(
        "relates rows",
        f"layers of your own may relate the rows of a batch to one another ({_some(layers)}); a device sees its own rows",
        "make them work row by row, or use JAX, where layers see all rows",
    )


def _metric(evidence: Evidence) -> Reason | None:
    difference = evidence.difference
    names = sorted({part.name for part in difference.parts if part.group in ("log", "result")})
    only = difference.groups <= {"log", "result"} and difference.event in ("step", "epoch", "history", "result")
    if (
        not only
        or any(name == "loss" or name.endswith("_loss") for name in names)
        or difference.call.startswith("pred")
    ):
        return None
    return Reason(
        "metric",
        f"weights agree; the state of {_some(names)} does not add up over devices",
        "a metric's state must add up over rows, or be computed from all rows",
    )


def _layer_state(evidence: Evidence) -> Reason | None:
    owners = [(part.name, evidence.owner(part.name)) for part in evidence.difference.parts if part.group == "weight"]
    names = [name for name, owner in owners if owner is not None and owner[1] and not owner[2]]
    if not names:
        return None
    return Reason(
        "layer state",
        f"a layer of your own keeps a state that is not a mean over rows ({_some(names)})",
        "keep a sum or count in a metric, or make the state a mean over rows",
        announced=bool(evidence.placed.facts.get("announced")),
    )


def _added_loss(evidence: Evidence) -> Reason | None:
    layers = evidence.placed.facts.get("add_loss", [])
    if not layers or evidence.sees_all_rows:
        return None
    return Reason(
        "add_loss",
        f"add_loss of a value that is not a mean over rows ({_some(layers)})",
        "divide it by the number of rows of the batch",
    )


def _own_step(evidence: Evidence) -> Reason | None:
    methods = evidence.models("own_methods")
    if not methods or evidence.sees_all_rows:
        return None
    return Reason(
        "own step",
        f"{_some(methods)} of your own: the gradients and results of replicas are averaged, weighted by their rows",
        f"its loss must be a mean over rows; see {_OWN_CODE}",
        announced=bool(evidence.placed.facts.get("announced")),
    )


def _callbacks(evidence: Evidence) -> Reason | None:
    names = evidence.call("callbacks")
    if not names:
        return None
    return Reason(
        "callbacks",
        f"callbacks of yours act between batches ({_some(names)}): their changes may not reach all devices",
        "change only variables of the model or the optimizer, not values that Python code reads",
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


_RULES: tuple[Rule, ...] = (
    _failure,
    _calls,
    _data,
    _learning_rate,
    _beginning,
    _layer_state,
    _local_norm,
    _random,
    _metric,
    _own_step,
    _added_loss,
    _callbacks,
    _rows,
)
