"""The time that a measured change saves in a step, and whether that is worth reporting."""

from __future__ import annotations

from abreast.doctor.facts import SAME_BATCH, Facts

LEAST_SHARE = 0.1
# An experiment that takes less than this share of its base is not scaled by the base: the base's spread would dominate.
_SHORT_SHARE = 0.5


def saved(facts: Facts, name: str) -> float:
    """Seconds that an experiment saves in a step of the run as given; 0 if it was not run or its gain is not sure.

    An experiment without input saves at most the difference between the step and the source alone.
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
    """Rows per second if each step took `seconds` less."""
    return facts.mean_rows / (facts.step_seconds - seconds)


def percent(seconds: float, facts: Facts) -> str:
    return f"{100 * seconds / facts.step_seconds:.0f}%"


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{1000 * seconds:,.0f} ms"
