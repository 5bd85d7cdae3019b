"""From facts to the `Diagnosis` that is shown: findings, the parts of a step, the experiments, where it all ran.

Imports `facts`, `findings` and `trials`; Keras for its version.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import keras

from abreast import __version__, provenance
from abreast.doctor.call import FitCall
from abreast.doctor.diagnosis import Diagnosis, Experiment
from abreast.doctor.facts import NO_CALLBACKS, Facts
from abreast.doctor.findings import all_reduce_seconds, findings
from abreast.doctor.input_findings import waiting_seconds
from abreast.doctor.saving import saved
from abreast.doctor.trials import Bench
from abreast.samplers.sample import Sample
from abreast.spans import Span


def verdict(call: FitCall, facts: Facts, bench: Bench, seen: Sequence[Span], samples: Sequence[Sample]) -> Diagnosis:
    return Diagnosis(
        model=call.model.name,
        backend=facts.backend,
        devices=facts.devices,
        batch_rows=facts.batch_rows,
        mean_rows=facts.mean_rows,
        num_steps=len(facts.given.samples) * bench.steps,
        step_seconds=facts.step_seconds,
        breakdown=breakdown(facts),
        findings=findings(facts),
        experiments=tuple(
            Experiment(one.name, one.what, len(one.samples) * bench.steps, one.seconds, one.spread)
            for one in facts.measures.values()
        ),
        spans=tuple(seen),
        samples=tuple(samples),
        facts=_described(facts, bench),
    )


def breakdown(facts: Facts) -> dict[str, float]:
    """Seconds of a step by what they go to, as far as experiments tell; computing is what is left."""
    parts = {
        "waiting for input": waiting_seconds(facts),
        "all-reduce": all_reduce_seconds(facts),
        "callbacks": saved(facts, NO_CALLBACKS),
    }
    once_an_epoch = {}
    if facts.steps_per_epoch:
        once_an_epoch = {
            "validation": facts.validation_seconds / facts.steps_per_epoch,
            "epoch ends": facts.between_epochs_seconds / facts.steps_per_epoch,
        }
    computing = facts.given.seconds - sum(parts.values())
    if computing < 0:  # what was measured one by one overlaps
        scale = facts.given.seconds / sum(parts.values())
        parts = {name: seconds * scale for name, seconds in parts.items()}
    whole = {
        "waiting for input": parts.pop("waiting for input"),
        "computing": max(0.0, computing),
        **parts,
        **once_an_epoch,
    }
    return {name: seconds for name, seconds in whole.items() if seconds > 0}


def _described(facts: Facts, bench: Bench) -> dict[str, str]:
    described: dict[str, Any] = {
        "abreast": __version__,
        "Keras": keras.__version__,
        "Python": platform.python_version(),
        "machine": f"{provenance.system()}, {facts.cores} cores",
        "batch": f"{facts.batch_bytes / 2**20:.2f} MiB",
        "gradients": f"{facts.gradient_bytes / 2**20:.2f} MiB",
    }
    if facts.reading is not None:
        reading = facts.reading
        described["source alone"] = (
            f"a batch every {1000 * reading.seconds:.2f} ms, {reading.busy_cores:.2f} cores busy, "
            f"{reading.active_threads:.1f} threads with a batch in hand"
        )
    if facts.num_devices > 1:
        described["idle cores"] = f"{facts.idle_cores:.2f} while one batch is trained on"
    if facts.all_reduce_seconds:
        described["all-reduce alone"] = f"{1000 * facts.all_reduce_seconds:.2f} ms"
    described |= {f"not tried: {name}": why for name, why in bench.failed.items()}
    return {name: str(value) for name, value in described.items()}
