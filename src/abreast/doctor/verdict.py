"""Builds the `Diagnosis` from facts: the findings, the parts of a step, the experiments, versions and machine."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import keras

from abreast import __version__, provenance
from abreast.doctor.call import FitCall
from abreast.doctor.diagnosis import Diagnosis, Experiment
from abreast.doctor.facts import NO_CALLBACKS, Facts
from abreast.doctor.input_rules import waiting_seconds
from abreast.doctor.ranking import findings
from abreast.doctor.rules import all_reduce_seconds
from abreast.doctor.saving import saved
from abreast.doctor.trials import TrialRunner
from abreast.samplers.sample import DeviceSample
from abreast.spans import Span


def verdict(
    call: FitCall, facts: Facts, runner: TrialRunner, seen: Sequence[Span], samples: Sequence[DeviceSample]
) -> Diagnosis:
    return Diagnosis(
        model=call.model.name,
        backend=facts.backend,
        devices=facts.devices,
        batch_rows=facts.batch_rows,
        mean_rows=facts.mean_rows,
        num_steps=len(facts.given.samples) * runner.steps,
        step_seconds=facts.step_seconds,
        breakdown=breakdown(facts),
        findings=findings(facts),
        experiments=tuple(
            Experiment(one.name, one.what, len(one.samples) * runner.steps, one.seconds, one.spread)
            for one in facts.measures.values()
        ),
        spans=tuple(seen),
        samples=tuple(samples),
        facts=_described(facts, runner),
    )


def breakdown(facts: Facts) -> dict[str, float]:
    """Seconds of a step by part, as the experiments show them; computing is the remainder."""
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
    if computing < 0:  # parts that were measured one by one can overlap
        scale = facts.given.seconds / sum(parts.values())
        parts = {name: seconds * scale for name, seconds in parts.items()}
    whole = {
        "waiting for input": parts.pop("waiting for input"),
        "computing": max(0.0, computing),
        **parts,
        **once_an_epoch,
    }
    return {name: seconds for name, seconds in whole.items() if seconds > 0}


def _described(facts: Facts, runner: TrialRunner) -> dict[str, str]:
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
            f"{reading.active_threads:.1f} threads working on a batch"
        )
    if facts.num_devices > 1:
        described["idle cores"] = f"{facts.idle_cores:.2f} while training on one batch"
    if facts.all_reduce_seconds:
        described["all-reduce alone"] = f"{1000 * facts.all_reduce_seconds:.2f} ms"
    described |= {f"not tried: {name}": why for name, why in runner.failed.items()}
    return {name: str(value) for name, value in described.items()}
