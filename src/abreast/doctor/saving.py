"""What a measured change saves of a step, and whether that is worth a word. Imports `facts`."""

from __future__ import annotations

from abreast.doctor.facts import SAME_BATCH, Facts

LEAST_SHARE = 0.1
# Of its base: an experiment that takes less is not put in proportion to the base, whose spread is more than all it takes.
_SHORT_SHARE = 0.5


def saved(facts: Facts, name: str) -> float:
    """Seconds of a step of the run as given that an experiment saved; 0 when it was not run or is not sure.

    What was measured without input saves no more than what a step takes longer than its source.
    """
    measure = facts.measures.get(name)
    if measure is None or not measure.sure or measure.base not in facts.measures:
        return 0.0
    before = facts.measures[measure.base].seconds
    after = before * measure.share
    if measure.share < _SHORT_SHARE:
        after = measure.seconds_per_row * (measure.base_rows or measure.rows)
    seconds = max(0.0, before - after)
    if measure.base == SAME_BATCH and facts.reading is not None:
        seconds = min(seconds, max(0.0, facts.given.seconds - facts.reading.seconds))
    return seconds


def worth(facts: Facts, seconds: float, share: float = LEAST_SHARE) -> bool:
    return seconds >= share * facts.step_seconds


def rows_after(facts: Facts, seconds: float) -> float:
    """Rows per second with so many seconds less in each step."""
    return facts.mean_rows / (facts.step_seconds - seconds)


def percent(seconds: float, facts: Facts) -> str:
    return f"{100 * seconds / facts.step_seconds:.0f}%"


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{1000 * seconds:,.0f} ms"
