"""Rules from facts to findings: the cause of lost time, the evidence, the advice, and the expected gain.

A rule reports a cost only if it is a tenth of a step or more, and if three turns in four confirm it. Not here: the rules about
the source (`input_rules.py`), the order of the findings (`ranking.py`), and measuring.
"""

from __future__ import annotations

import itertools
import math

from abreast.doctor.diagnosis import Finding
from abreast.doctor.facts import (
    COMPILED,
    DOUBLE_BATCH,
    EVEN_BATCH,
    MANY_STEPS,
    NO_CALLBACKS,
    ONE_DEVICE,
    PRECISION,
    SAME_BATCH,
    STEPS_PER_EXECUTION,
    UINT8,
    Facts,
)
from abreast.doctor.saving import milliseconds, percent, rows_after, saved, worth

# A larger batch changes the training, so it is recommended only if a row then takes at most this share of its time.
_SMALL_BATCH_SHARE = 0.7
_MOST_VALIDATION = 0.3
_MOST_BETWEEN = 0.2
_FEW_ROWS = 16
_LARGE_BATCH = 1024
IDLE_CORES = 0.75  # if simulated devices leave this many cores idle, a device waits for something other than a core


def slow_callbacks(facts: Facts) -> Finding | None:
    callbacks = facts.callbacks
    in_steps = saved(facts, NO_CALLBACKS)
    at_ends = facts.epoch_end_seconds / facts.steps_per_epoch if facts.steps_per_epoch else 0.0
    lost = in_steps + at_ends
    if not worth(facts, lost):
        return None
    timed = sum(callbacks.per_step.values())
    if at_ends > in_steps:
        name = max(callbacks.per_epoch, key=callbacks.per_epoch.__getitem__)
        who, how = (
            f"{name} at the end of each epoch",
            f"{callbacks.per_epoch[name]:.2f} s per epoch of {facts.steps_per_epoch} steps",
        )
        advice = f"let {name} act less often, or in a thread of its own"
    elif callbacks.progress_bar and (callbacks.slowest is None or timed < lost / 2):
        who, how = "the progress bar", "printing at every step"
        advice = "fit(verbose=2) prints a line per epoch"
    elif callbacks.slowest is None:
        who, how = "callbacks", "measured by a run without them"
        advice = "let them act every few steps instead of at every step"
    else:
        name = callbacks.slowest
        who, how = name, _in_methods(callbacks.per_step[name], lost)
        advice = f"let {name} act every few steps instead of at every step, or in a thread of its own"
    return Finding(
        "slow-callbacks",
        f"{who} takes {percent(lost, facts)} of each step",
        f"{milliseconds(lost)} of {milliseconds(facts.step_seconds)}; {how}",
        advice,
        lost,
        rows_after(facts, lost),
    )


def _in_methods(seconds: float, lost: float) -> str:
    """The time of a callback's methods. It exceeds what a step loses where devices compute, or input is read, meanwhile."""
    hidden = max(0.0, seconds - lost)
    share = (
        ""
        if hidden <= 0.1 * seconds
        else f", {'mostly' if hidden > seconds / 2 else 'partly'} beside computing or input"
    )
    return f"its methods run for {milliseconds(seconds)}{share}"


def all_reduce(facts: Facts) -> Finding | None:
    lost = all_reduce_seconds(facts)
    if not worth(facts, lost, share=0.2):
        return None
    double = facts.measures.get(DOUBLE_BATCH)
    rows = "" if double is None else f": batch_size={double.rows} was tried"
    return Finding(
        "all-reduce-bound",
        f"the devices exchange gradients for {percent(lost, facts)} of each step",
        f"{milliseconds(lost)} of {milliseconds(facts.step_seconds)} for {facts.gradient_bytes / 2**20:.1f} MiB "
        f"between {facts.num_devices} devices, {math.ceil(facts.batch_rows / facts.num_devices)} rows on each",
        f"give each device more rows per exchange{rows}; or train on fewer devices",
        lost,
        rows_after(facts, saved(facts, DOUBLE_BATCH)) if double is not None and double.sure else None,
    )


def all_reduce_seconds(facts: Facts) -> float:
    """Seconds that all-reduces add to a step. On real devices, at most the difference to a step on one device alone."""
    alone, same = facts.measures.get(ONE_DEVICE), facts.measures.get(SAME_BATCH)
    if facts.simulated or alone is None or same is None:
        return facts.all_reduce_seconds
    return min(facts.all_reduce_seconds, max(0.0, same.seconds - alone.seconds))


def host(facts: Facts) -> Finding | None:
    """Time that Python costs between the devices' work: an eager step, or many short steps."""
    compiled, many = saved(facts, COMPILED), saved(facts, MANY_STEPS)
    if not worth(facts, max(compiled, many)):
        return None
    if compiled >= many:
        setting = "run_eagerly=True" if facts.run_eagerly else "jit_compile=False"
        what, advice = f"Python runs the step operation by operation ({setting})", f"compile without {setting}"
    else:
        what = "steps are shorter than the Python code between them"
        advice = (
            f"compile(steps_per_execution={STEPS_PER_EXECUTION}); callbacks then see every {STEPS_PER_EXECUTION}th step"
        )
    lost = max(compiled, many)
    return Finding(
        "host-bound",
        f"{what}: {percent(lost, facts)} of each step",
        f"{milliseconds(facts.step_seconds)} a step, {milliseconds(facts.step_seconds - lost)} without",
        advice,
        lost,
        rows_after(facts, lost),
    )


def unequal_shards(facts: Facts) -> Finding | None:
    lost = saved(facts, EVEN_BATCH)
    if not worth(facts, lost):
        return None
    even = facts.measures[EVEN_BATCH]
    shard, rest = math.ceil(facts.batch_rows / facts.num_devices), facts.batch_rows // facts.num_devices
    return Finding(
        "unequal-shards",
        f"{facts.batch_rows} rows do not divide by {facts.num_devices} devices: devices with fewer rows wait for the others",
        f"{shard} rows on some and {rest} on others; a row takes {percent(lost, facts)} less time in batches of {even.rows}",
        f"batch_size={even.rows}, or another multiple of {facts.num_devices}",
        lost,
        rows_after(facts, lost),
    )


def slow_device(facts: Facts) -> Finding | None:
    """A device that lengthens the step, when it joins, by more than all-reduces, copies and shared cores explain."""
    added = facts.added_devices
    if len(added) < 2 or (facts.simulated and facts.idle_cores < IDLE_CORES):
        return None
    if worth(facts, saved(facts, COMPILED)):
        return None  # Python gives each device its operations in turn: every device that joins slows the others
    if facts.simulated and worth(facts, saved(facts, UINT8)):
        return None  # every device that joins adds copies in the host's memory
    grows = [after - before for before, after in itertools.pairwise(added)]
    most = max(range(len(grows)), key=grows.__getitem__)
    lost = grows[most] - facts.all_reduce_seconds - facts.put_seconds
    # Simulated devices share caches and memory: every device that joins slows the others considerably.
    if not worth(facts, lost, share=0.5 if facts.simulated else 0.2):
        return None
    name = facts.devices[most + 1]
    return Finding(
        "straggler",
        f"the others wait for {name}: {percent(lost, facts)} of each step",
        f"{milliseconds(added[most])} a step on {most + 1} device(s), {milliseconds(added[most + 1])} when {name} joins, "
        f"with the same rows on each",
        f"check {name} for other processes, heat, a slower model or a slower link, or train without it",
        lost,
        # Simulated devices also slow each other down by sharing cores; by how much is not known.
        None if facts.simulated else rows_after(facts, lost),
    )


def small_batch(facts: Facts) -> Finding | None:
    """A cost per step that no other rule explains, and that a larger batch would spread over more rows."""
    double = facts.measures.get(DOUBLE_BATCH)
    if double is None or not double.sure or double.rows <= facts.batch_rows:
        return None
    if all_reduce(facts) is not None or host(facts) is not None:
        return None  # these findings need no larger batch, or recommend it themselves
    even, straggler = facts.measures.get(EVEN_BATCH), slow_device(facts)
    explained = saved(facts, NO_CALLBACKS) + (0.0 if straggler is None else straggler.lost_seconds)
    lost = saved(facts, DOUBLE_BATCH) - explained * (1 - facts.batch_rows / double.rows)
    share = double.share / (even.share if even is not None else 1.0)
    if share > _SMALL_BATCH_SHARE or not worth(facts, lost, share=1 - _SMALL_BATCH_SHARE):
        return None
    return Finding(
        "small-batch",
        f"{math.ceil(facts.batch_rows / facts.num_devices)} rows per device are too few to keep it busy",
        f"a row takes {percent(lost, facts)} less time in batches of {double.rows} than of {facts.batch_rows}",
        f"batch_size={double.rows} or more, with a learning rate that fits",
        lost,
        rows_after(facts, saved(facts, DOUBLE_BATCH)),
    )


def validation(facts: Facts) -> Finding | None:
    if facts.validation is None or not facts.steps_per_epoch:
        return None
    per_step = facts.validation_seconds / facts.steps_per_epoch
    if not worth(facts, per_step, share=_MOST_VALIDATION):
        return None
    # Validate so seldom that validation takes a tenth of the training's time.
    every = math.ceil(per_step / (0.1 * (facts.step_seconds - per_step)))
    lost = per_step * (1 - 1 / every)
    measured = facts.validation
    return Finding(
        "validation",
        f"validation takes {percent(per_step, facts)} of each epoch",
        f"{measured.seconds:.2f} s for {measured.steps} steps, next to {facts.steps_per_epoch} training steps "
        f"of {milliseconds(facts.given.seconds)}",
        f"fit(validation_freq={every * measured.every}), a larger validation_batch_size, or fewer validation_steps",
        lost,
        rows_after(facts, lost),
    )


def short_epochs(facts: Facts) -> Finding | None:
    """Time between epochs except callbacks: restarting the source, and waiting for the first batch."""
    if not facts.steps_per_epoch:
        return None
    between = facts.between_epochs_seconds - facts.epoch_end_seconds
    lost = between / facts.steps_per_epoch
    if not worth(facts, lost, share=_MOST_BETWEEN):
        return None
    return Finding(
        "short-epochs",
        f"{percent(lost, facts)} of the time passes between epochs",
        f"{milliseconds(between)} from the last step of an epoch to the first of the next, without callbacks; "
        f"{facts.steps_per_epoch} steps an epoch",
        "make epochs longer: let one pass over the data several times (Dataset.repeat, steps_per_epoch, a longer PyDataset)",
        lost,
        rows_after(facts, lost),
    )


def precision(facts: Facts) -> Finding | None:
    lost = saved(facts, PRECISION)
    if not worth(facts, lost):
        return None
    return Finding(
        "precision",
        "the model computes in float32 on devices that have tensor cores",
        f"{milliseconds(facts.given.seconds)} a step, {milliseconds(facts.given.seconds - lost)} in bfloat16",
        'keras.config.set_dtype_policy("mixed_bfloat16") before the model is made',
        lost,
        rows_after(facts, lost),
    )


def local_batch_norm(facts: Facts) -> Finding | None:
    rows = facts.batch_rows / facts.num_devices
    if facts.batch_norm != "local" or not facts.has_batch_norm or facts.num_devices == 1 or rows >= _FEW_ROWS:
        return None
    return Finding(
        "batch-norm",
        f"BatchNormalization takes its statistics over {rows:.0f} rows",
        f'batch_norm="local", {facts.batch_rows} rows on {facts.num_devices} devices',
        'batch_norm="global", or at least 16 rows per device',
        0.0,
    )


def learning_rate(facts: Facts) -> Finding | None:
    if not facts.learning_rate_is_default or facts.batch_rows < _LARGE_BATCH or facts.num_devices == 1:
        return None
    return Finding(
        "learning-rate",
        f"a batch of {facts.batch_rows} rows trains with {facts.optimizer}'s default learning rate",
        f"{facts.learning_rate:g}, chosen for batches of tens to hundreds of rows",
        "with k times the rows, try k times the learning rate (SGD), or sqrt(k) times (Adam), with a warm-up of some epochs",
        0.0,
    )
