"""The uncertainty of a prediction: the range that contains the measured value in four of five cases.

The widths come from machines that the fit had not seen (`benchmarks/plan_fit.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from abreast.plan.constants import Interval

Number = Any  # a float, or an array of them


def loss_of(efficiency: Number) -> Number:
    """The loss of a step: the logarithm of its time over the time of one device that trains alone."""
    return np.maximum(-np.log(efficiency), 0.0)


def interval(efficiency: Number, assumed: Number, widths: Interval) -> tuple[Number, Number]:
    """The lowest and highest efficiency of the 80 % interval; `assumed` is 1 if facts were missing."""
    half = widths.floor + widths.per_loss * loss_of(efficiency) + widths.assumed * np.asarray(assumed, float)
    return efficiency * np.exp(-half * widths.shift_low), efficiency * np.exp(half * widths.shift_high)
