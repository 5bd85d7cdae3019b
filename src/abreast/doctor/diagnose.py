"""`diagnose`: runs tens of steps of a `fit` as given, alternates them with counter-experiments, and draws conclusions.

Here: the order of the measurements. Measuring is in `trials.py`, `source_alone.py` and `once.py`, the changes to try in
`remedies.py`, the rules in `rules.py`, and the ranking of the causes in `ranking.py`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import keras

from abreast import placed_models, spans
from abreast.backend import current_backend
from abreast.cpu import num_cores
from abreast.doctor import once, remedies
from abreast.doctor.call import FitCall, bytes_of, rows_of
from abreast.doctor.diagnosis import Diagnosis
from abreast.doctor.facts import GIVEN, ONE_DEVICE, SAME_BATCH, SOURCE, Facts
from abreast.doctor.keep import build, kept
from abreast.doctor.remedies import DiagnosedFit
from abreast.doctor.rules import IDLE_CORES
from abreast.doctor.source_alone import SourceAlone
from abreast.doctor.steps import check_steps
from abreast.doctor.tensor_cores import have_tensor_cores
from abreast.doctor.trials import Trial, TrialRunner
from abreast.doctor.verdict import verdict
from abreast.errors import DataError, LaunchError
from abreast.gradient_bytes import gradient_bytes
from abreast.launchers import read_world
from abreast.samplers.nvml import NvidiaDevices
from abreast.samplers.processor import Processor
from abreast.samplers.sample import DeviceSample
from abreast.samplers.sampler import Sampler
from abreast.spans import Span
from abreast.state import kept_random

Result = TypeVar("Result")

_PROBED_BATCHES = 16
_SHOWN_STEPS = 5
_SAMPLE_SECONDS = 0.05
# After longer epochs, the time between two of them is too small a share to measure.
_SHORT_EPOCH_SECONDS = 3.0
_PASSED_EPOCHS = 3
# If less than this share of a step is unexplained, the devices are not measured one by one.
_UNEXPLAINED = 0.15


def diagnose(model: Any, x: Any = None, y: Any = None, *, steps: int = 30, **fit_arguments: Any) -> Diagnosis:
    """A diagnosis of `model.fit(x, y, **fit_arguments)`: where its time goes, and recommended changes.

    Runs at least `steps` steps as given, and more with one thing changed: seconds to minutes. Callbacks act as in any `fit`,
    but printed text is hidden, and `model.save` writes to a folder that is deleted. Afterwards weights, optimizer, callbacks
    and random generators are as before. A generator is read and not rewound.

    Args:
        model: a compiled Keras model, placed by abreast or not.
        x: the data of `fit`.
        y: the targets of `fit`, if `x` does not contain them.
        steps: number of steps to measure as given, at least.
        **fit_arguments: the other arguments of `fit`, such as `batch_size=64`.

    Returns:
        A `Diagnosis`, which prints as text.

    Raises:
        ModelError: the model is not compiled.
        DataError: the data source is empty, or ends too early.
        LaunchError: a launcher started several processes.
        Exception: whatever `fit` raises.

    Example:
        >>> import abreast, keras
        >>> import numpy as np
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> x = np.ones((256, 8), "float32")
        >>> diagnosis = abreast.diagnose(model, x, x[:, :1], batch_size=16, steps=10)
        >>> diagnosis.batch_rows
        16
        >>> seconds = {finding.cause: finding.lost_seconds for finding in diagnosis.findings}
    """
    return diagnose_call(model, (x, y), fit_arguments, steps)


def diagnose_call(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], steps: int, tell: Callable[[str], None] = lambda _: None
) -> Diagnosis:
    """Diagnose `model.fit(*args, **kwargs)`. `tell` is called with a line about each next stage: the whole takes minutes."""
    check_steps(steps)
    if read_world().size > 1:
        raise LaunchError(
            f"{read_world().source} started {read_world().size} processes, which would not run the same steps",
            "diagnose a script that runs in one process: abreast doctor --devices N script.py",
        )
    call = FitCall.of(model, *args, **kwargs)
    placement = placed_models.placement_of(model)
    source = SourceAlone(call, placement.staging.input_timeout if placement is not None else None)
    with kept_random(model):
        tell("reading the first batch")
        build(model, source.first())
        with kept(model, call.callbacks):
            return _Doctor(call, source, placement, steps, tell).diagnose()


class _Doctor:
    def __init__(
        self, call: FitCall, source: SourceAlone, placement: Any, steps: int, tell: Callable[[str], None]
    ) -> None:
        self.call = call
        self.source = source
        self.tell = tell
        self.runner = TrialRunner(call, steps, tell=tell)
        self.placement = placement
        self.devices = current_backend().device_names()[:1] if self.placement is None else self.placement.devices

    def diagnose(self) -> Diagnosis:
        self.tell(f"reading {_PROBED_BATCHES} batches of the source alone")
        self.source.read(_PROBED_BATCHES)
        diagnosed = DiagnosedFit(
            self.call, self.source.batch, rows_of(self.source.batch), self.placement, self.source.mean_rows
        )
        validated = self.call.arguments["validation_data"] is not None
        with once.timed_callbacks(self.call.callbacks, validated) as clocks:
            self.runner.warmup_steps += self.call.num_workers or 0
            self.tell("running the first steps, which compile")
            self.runner.warm_up(diagnosed.given())
            clocks.clear()
            self.runner.take_turns(self._first_trials(diagnosed))
            per_call = int(self.call.model.steps_per_execution or 1)
            callbacks = clocks.result(per_call, bool(self.call.arguments["verbose"]))
            facts = self._try_remedies(diagnosed, self._facts(diagnosed))
            clocks.clear()
            if validated:
                self.tell("measuring a validation")
            validation = self._while_it_lasts(lambda: once.validation(self.call))
            self._pass_epochs(diagnosed, facts)
            ends = clocks.result(per_call, False).per_epoch or callbacks.per_epoch
        facts = replace(facts, callbacks=replace(callbacks, per_epoch=ends), validation=validation)
        if self.runner.between_epochs:
            facts = replace(facts, epoch_seconds=statistics.median(self.runner.between_epochs))
        facts = self._look_at_devices(diagnosed, facts)
        seen, samples = self._listen(diagnosed)
        return verdict(self.call, replace(facts, put_seconds=_mean_put(seen)), self.runner, seen, samples)

    def _first_trials(self, diagnosed: DiagnosedFit) -> list[Trial]:
        source = Trial(SOURCE, "the source is read, nothing is trained", diagnosed.rows, dict, run=self.source.read)
        silent = not self.call.callbacks and not self.call.arguments["verbose"]
        return [diagnosed.given(), diagnosed.same_batch(), source, *([] if silent else [diagnosed.no_callbacks()])]

    def _facts(self, diagnosed: DiagnosedFit) -> Facts:
        if GIVEN not in self.runner.measures:
            raise self.call.ended or DataError("the data source ended at once", "give a source of more batches")
        model = diagnosed.model
        x = diagnosed.batch[0] if isinstance(diagnosed.batch, tuple) else diagnosed.batch
        small, scaled = remedies.uint8_bytes(x)
        return Facts(
            devices=tuple(self.devices),
            batch_rows=diagnosed.rows,
            rows=diagnosed.mean_rows,
            measures=dict(self.runner.measures),
            backend=keras.backend.backend(),
            cores=num_cores(),
            reading=self.source.reading(),
            steps_per_epoch=self.call.arguments["steps_per_epoch"] or self.call.adapter().num_batches,
            shapes=tuple(self.source.shapes),
            batch_bytes=bytes_of(diagnosed.batch),
            as_uint8_bytes=small + bytes_of(diagnosed.batch) - bytes_of(x) if small else 0,
            scaled=scaled,
            gradient_bytes=gradient_bytes(model.trainable_weights),
            run_eagerly=bool(model.run_eagerly),
            jit_compile=bool(model.jit_compile),
            steps_per_execution=int(model.steps_per_execution or 1),
            has_tensor_cores=have_tensor_cores(self.devices),
            reduced_precision=remedies.compute_is_reduced(model),
            batch_norm="global" if self.placement is None else self.placement.batch_norm,
            has_batch_norm=remedies.has_batch_norm(model),
            **once.learning_rate(model.optimizer),
        )

    def _try_remedies(self, diagnosed: DiagnosedFit, facts: Facts) -> Facts:
        if suggested := remedies.suggested(diagnosed, facts):
            self.runner.take_turns([diagnosed.given(), diagnosed.same_batch(), *suggested])
        return replace(facts, measures=dict(self.runner.measures))

    def _look_at_devices(self, diagnosed: DiagnosedFit, facts: Facts) -> Facts:
        """Measure all-reduces, and the devices one by one if all-reduces do not explain the time that several devices lose."""
        if self.placement is None or diagnosed.num_devices == 1:
            return facts
        self.tell("measuring each device, and sums over the devices")
        idle_cores = once.IdleCores()
        self.runner.run(diagnosed.only_steps(), 1, self.runner.steps)
        idle = idle_cores.mean()
        sums = self.placement.backend.instruments.all_reduce_seconds(self.placement, facts.gradient_bytes)
        facts = replace(facts, idle_cores=idle, all_reduce_seconds=sums)
        if facts.simulated and idle < IDLE_CORES:
            return facts  # the devices share the cores, so the time of one device alone shows nothing about the others
        self.runner.take_turns([diagnosed.given(), diagnosed.same_batch(), remedies.on_devices(diagnosed, 1)], rounds=3)
        facts = replace(facts, measures=dict(self.runner.measures))
        alone = facts.measures.get(ONE_DEVICE)
        same = facts.measures[SAME_BATCH].seconds
        if alone is None or same - alone.seconds - sums < _UNEXPLAINED * same:
            return facts
        added = remedies.added_devices(diagnosed)
        self.runner.take_turns([diagnosed.given(), diagnosed.same_batch(), *added], rounds=3)
        facts = replace(facts, measures=dict(self.runner.measures))
        if any(trial.name not in facts.measures for trial in added):
            return facts
        return replace(facts, added_devices=tuple(facts.measures[trial.name].seconds for trial in added))

    def _pass_epochs(self, diagnosed: DiagnosedFit, facts: Facts) -> None:
        """Run past an epoch's end if epochs are short and no trial has done so: the time between epochs may be long."""
        steps = facts.steps_per_epoch
        if self.runner.between_epochs or not steps or steps * facts.given.seconds > _SHORT_EPOCH_SECONDS:
            return
        self.tell("measuring the time between epochs")
        for _ in range(_PASSED_EPOCHS):
            self._while_it_lasts(lambda: self.runner.run(diagnosed.given(), self.runner.warmup_steps, steps))

    def _while_it_lasts(self, measure: Callable[[], Result]) -> Result | None:
        """The result of `measure`; None if a generator ends during it: the diagnosis does not depend on it."""
        try:
            return None if self.call.ended else measure()
        except Exception:
            if self.call.ended is None:
                raise
            return None

    def _listen(self, diagnosed: DiagnosedFit) -> tuple[list[Span], list[DeviceSample]]:
        """The spans of a few steps as given, and samples of the devices over the same time."""
        self.tell("recording some steps as given")
        seen: list[Span] = []
        sampler = Sampler([NvidiaDevices(), Processor()], _SAMPLE_SECONDS)
        spans.listen(seen)
        sampler.start()
        try:
            self._while_it_lasts(
                lambda: self.runner.run(diagnosed.given(), self.runner.warmup_steps, self.runner.steps)
            )
        finally:
            sampler.stop()
            spans.ignore(seen)
        return _last_steps(seen), list(sampler.samples)


def _last_steps(seen: list[Span]) -> list[Span]:
    """The spans that overlap the last complete steps."""
    steps = [span for span in seen if span.track == spans.MAIN and span.name == "step"][-_SHOWN_STEPS - 1 : -1]
    if not steps:
        return []
    start, end = steps[0].start_ns, steps[-1].end_ns
    return [span for span in seen if span.end_ns > start and span.start_ns < end]


def _mean_put(seen: list[Span]) -> float:
    puts = [span.seconds for span in seen if span.name == "put"]
    return sum(puts) / len(puts) if puts else 0.0
