"""Rules about the input of a step: the source and its parts, copies, and shapes that change."""

from __future__ import annotations

from abreast.doctor.diagnosis import Finding
from abreast.doctor.facts import MORE_WORKERS, SAME_BATCH, UINT8, Facts, Reading
from abreast.doctor.saving import milliseconds, percent, rows_after, saved, worth

# Slow for copies from pinned memory to any GPU of this decade, and fast for copies from pageable memory.
_PINNED_BYTES_PER_SECOND = 8e9


def slow_source(facts: Facts) -> Finding | None:
    """Devices wait for batches. The samples of the source's threads show which part of the source is slow."""
    reading, lost = facts.reading, waiting_seconds(facts)
    if reading is None or not worth(facts, lost) or not _source_explains(facts, lost):
        return None
    if worth(facts, saved(facts, UINT8)) and reading.kind == "arrays":
        return None  # `copies` reports the same bytes, with better advice
    more = saved(facts, MORE_WORKERS)
    cause, advice = ("too-few-workers", _workers_advice(facts)) if worth(facts, more) else _part(facts, reading)
    brings = more if cause == "too-few-workers" else lost
    return Finding(
        cause,
        f"devices wait {percent(lost, facts)} of each step for data",
        f"median {milliseconds(lost)} of {milliseconds(facts.step_seconds)}; the source alone gives a batch every "
        f"{milliseconds(reading.seconds)}{_seen(reading)}",
        advice,
        lost,
        rows_after(facts, brings),
    )


def waiting_seconds(facts: Facts) -> float:
    """Additional seconds of a step compared with a step on a batch that is already there."""
    return saved(facts, SAME_BATCH)


def _source_explains(facts: Facts, lost: float) -> bool:
    return facts.reading is not None and facts.reading.seconds >= 0.5 * lost


def _workers_advice(facts: Facts) -> str:
    assert facts.reading is not None
    return f"{facts.measures[MORE_WORKERS].what}: {facts.reading.setting}"


def _part(facts: Facts, reading: Reading) -> tuple[str, str]:
    """Cause and advice for a source without workers, or for which more workers do not help."""
    if reading.kind == "arrays":
        return (
            "slow-source",
            "cutting batches out of the arrays takes longer than a step: use smaller types, or fewer columns",
        )
    if reading.in_processes:
        return "slow-source", "its worker processes do not keep up: use more of them, or give each less work"
    held = (reading.workers or 0) > 1 and 0.6 <= reading.busy_cores < 1.4 and facts.cores > 1
    if held:
        return (
            "gil",
            "its threads take turns in Python: set use_multiprocessing=True, or do the work in NumPy for all rows at once",
        )
    if reading.waiting > 0.5:
        return "slow-reading", (
            "it waits for files or the network: read several batches at once (workers of a PyDataset or DataLoader), "
            "larger files, or a copy on a faster disk"
        )
    if reading.decoding >= 0.4:
        return "slow-decoding", "decode in several processes or beforehand, or store a format that is cheaper to decode"
    if reading.place_is_own:
        return (
            "slow-python",
            "do this work in NumPy for all rows of a batch at once, or beforehand, or in several processes",
        )
    return "slow-source", "give the source more of the processor's cores, smaller rows, or do its work beforehand"


def _seen(reading: Reading) -> str:
    share = f"{100 * min(1.0, reading.waiting):.0f}% of that time without using a processor"
    doing = f", {100 * reading.decoding:.0f}% spent decoding" if reading.decoding >= 0.1 else ""
    workers = f", {reading.workers} worker{'' if reading.workers == 1 else 's'}" if reading.workers is not None else ""
    place = f", mostly in {reading.place}" if reading.place else ""
    return f" ({share}{doing}{workers}{place})"


def copies(facts: Facts) -> Finding | None:
    lost = saved(facts, UINT8)
    if worth(facts, lost):
        divided = " / 255" if facts.scaled else ""
        layer = ", with keras.layers.Rescaling(1 / 255) as the first layer" if facts.scaled else ""
        return Finding(
            "copy-bound",
            f"whole numbers from 0 to 255{divided} are sent as floats: {percent(lost, facts)} of each step",
            f"{facts.batch_bytes / 2**20:.1f} MiB per batch, {facts.as_uint8_bytes / 2**20:.1f} MiB as uint8; "
            f"{milliseconds(facts.step_seconds)} a step, {milliseconds(facts.step_seconds - lost)} as uint8",
            f"give uint8{layer}: the device converts it to floats",
            lost,
            rows_after(facts, lost),
        )
    return _slow_copies(facts)


def _slow_copies(facts: Facts) -> Finding | None:
    """Copies to a GPU that take as long as a step, at a rate that is typical of pageable memory."""
    if facts.simulated or facts.put_seconds < 0.8 * facts.given.seconds or not facts.batch_bytes:
        return None
    rate = facts.batch_bytes / facts.put_seconds
    if rate > _PINNED_BYTES_PER_SECOND or not worth(facts, facts.put_seconds):
        return None
    return Finding(
        "copy-bound",
        f"copies to the devices take {percent(facts.put_seconds, facts)} of each step, as slow as from pageable memory",
        f"{facts.batch_bytes / 2**20:.1f} MiB in {milliseconds(facts.put_seconds)}, {rate / 1e9:.1f} GB/s",
        "send smaller types (uint8, float16), or give batches in pinned memory (DataLoader(pin_memory=True))",
        facts.put_seconds * (1 - rate / _PINNED_BYTES_PER_SECOND),
    )


def recompilation(facts: Facts) -> Finding | None:
    """Batches whose shapes keep changing: the step is compiled again for each new shape."""
    seen, new = set(), 0
    for number, shape in enumerate(facts.shapes):
        new += shape not in seen and number >= len(facts.shapes) // 2
        seen.add(shape)
    later = len(facts.shapes) - len(facts.shapes) // 2
    lost = waiting_seconds(facts)
    if not later or new / later < 0.25 or not worth(facts, lost) or _source_explains(facts, lost):
        return None
    return Finding(
        "recompilation",
        f"the step is compiled for new shapes: {percent(lost, facts)} of each step",
        f"{len(seen)} shapes in {len(facts.shapes)} batches, as {' and '.join(sorted({shape[0] for shape in seen})[:2])}; "
        f"{milliseconds(facts.step_seconds)} a step, {milliseconds(facts.step_seconds - lost)} with only the largest batch",
        "pad batches to one shape, or to a few lengths (buckets), and drop or fill the last one",
        lost,
        rows_after(facts, lost),
    )
