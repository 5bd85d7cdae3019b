"""The parts of `make gpu` as data, the most important first: the time budget leaves out the last ones. Imports nothing."""

from __future__ import annotations

from dataclasses import dataclass

USUAL_SECONDS = 480.0  # for all parts together; `limit_seconds` below are for this


@dataclass(frozen=True)
class Part:
    """`body` names a function of a `Place` as `module:function`; `needs` lists what the machine must have, as in `machine.py`.

    `counts`: the numbers of devices that it runs on ("one", "all"). `alone`: it measures time, so nothing else may run.
    """

    name: str
    body: str
    needs: tuple[str, ...] = ()
    per_backend: bool = True
    counts: tuple[str, ...] = ("all",)
    limit_seconds: float = 60.0
    alone: bool = True


def _body(name: str) -> str:
    return f"benchmarks.gpu.parts.{name}"


# Its rows decide which devices the other parts can use.
DEVICES = Part("devices", _body("devices:run"), limit_seconds=90, alone=False)

PARTS = (
    Part("contract", _body("contract:run"), counts=("one", "all"), limit_seconds=120, alone=False),
    Part("check", _body("check:run"), limit_seconds=120, alone=False),
    Part("launched", _body("launched:run"), limit_seconds=120, alone=False),
    Part("torture", _body("torture:run"), limit_seconds=240, alone=False),
    Part("device trace", _body("trace:run"), alone=False),
    Part("machine", _body("machine:run"), per_backend=False, limit_seconds=90),
    Part("staging", _body("staging:run")),
    Part("timeline", _body("timeline:run")),
    Part("step overhead", _body("overhead:run"), counts=("one", "all"), limit_seconds=90),
    Part("decoding", _body("decoding:run"), needs=("images",), per_backend=False, limit_seconds=90),
    Part("doctor", _body("doctor:run"), limit_seconds=90),
    Part("feeding", _body("feeding:run")),
    Part("checkpoints", _body("checkpoints:run"), limit_seconds=90),
    Part("bench", _body("bench:run"), counts=("one", "all")),
    Part("bench resnet50", _body("bench:resnet50"), needs=("gpu",), limit_seconds=120),
)
