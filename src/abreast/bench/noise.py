"""Noise: the reason why a measurement is too noisy to be compared with another one.

Not here: the measurement of other processes' load (`load.py`).
"""

from __future__ import annotations

from typing import Any

from abreast.units import share

MOST_SPREAD = 0.2  # from quartile to quartile, as a share of the median
MOST_LOAD = 0.1  # of other processes, as a share of the machine's cores
TOO_NOISY = "too noisy"
HINT = "leave the machine to the measurement, and repeat it with --again; --rounds 15 takes more samples"


def noise(line: dict[str, Any]) -> str:
    """The reasons why a measured line is too noisy, in words; empty for a line that is steady."""
    return "; ".join(filter(None, (_spread(line), _load(line))))


def _spread(line: dict[str, Any]) -> str:
    low, high = line["quartiles"]
    apart = (high - low) / line["median"]
    return f"quartiles apart by {share(apart)} of the median" if apart > MOST_SPREAD else ""


def _load(line: dict[str, Any]) -> str:
    used, cores = line.get("cores_of_others"), line["machine"]["cores"]
    if used is None or used <= MOST_LOAD * cores:
        return ""
    return f"other processes used {used:.1f} of {cores:,} cores"
