"""Numbers as text for people: three digits and a unit. NaN and infinity become `unknown`."""

from __future__ import annotations

import math

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_LONG = ((3600.0, "h"), (60.0, "min"), *_SECONDS)
_BYTES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes"))
UNKNOWN = "unknown"


def duration(seconds: float, like: float | None = None) -> str:
    """A time such as `38.2 ms`. With `like`, the unit and decimals suit that time, so that the numbers of a column align."""
    if not math.isfinite(seconds):
        return UNKNOWN
    measure = seconds if like is None or not math.isfinite(like) else like
    size, unit = _unit(measure, _SECONDS)
    decimals = _decimals(measure / size) if like is None else max(1, _decimals(measure / size))
    return f"{seconds / size:,.{decimals}f} {unit}"


def duration_range(low: float, high: float, like: float) -> str:
    """Two times with the unit of a third, such as `95.0 to 105.0 ms`."""
    last = duration(high, like)
    unit = last.rpartition(" ")[2]
    return f"{duration(low, like).removesuffix(f' {unit}')} to {last}"


def long_duration(seconds: float) -> str:
    """A time in a unit that suits its length: `1.25 h`, `2.22 min`, `38.2 s`, `5.00 ms`."""
    if not math.isfinite(seconds):
        return UNKNOWN
    size, unit = _unit(seconds, _LONG) if seconds >= 1 else _unit(seconds, _SECONDS)
    return f"{seconds / size:,.{_decimals(seconds / size)}f} {unit}"


def byte_count(num_bytes: float) -> str:
    """A size such as `1.50 GiB`."""
    if not math.isfinite(num_bytes):
        return UNKNOWN
    size, unit = _unit(num_bytes, _BYTES)
    return f"{num_bytes / size:,.{0 if unit == 'bytes' else _decimals(num_bytes / size)}f} {unit}"


def byte_unit(num_bytes: float) -> tuple[float, str]:
    """The unit that `byte_count` uses for a size: its bytes, and its name."""
    return _unit(num_bytes, _BYTES) if math.isfinite(num_bytes) else _BYTES[-1]


def count(number: float) -> str:
    """A number such as `11,118`; below a hundred, with three digits."""
    if not math.isfinite(number):
        return UNKNOWN
    return f"{number:,.{0 if number == int(number) else _decimals(number)}f}"


def counted(number: int, what: str) -> str:
    """A number of things, such as `1 step` or `1,000 steps`."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def share(part: float) -> str:
    """A share such as `41%`; below ten percent, with one decimal."""
    if not math.isfinite(part):
        return UNKNOWN
    percent = 100 * part
    return f"{percent:.1f}%" if 0 < abs(percent) < 9.95 else f"{percent:.0f}%"


def times(ratio: float) -> str:
    """A ratio with two decimals and a multiplication sign."""
    return f"{ratio:.2f}\N{MULTIPLICATION SIGN}" if math.isfinite(ratio) else UNKNOWN


def _unit(value: float, units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    if value == 0:
        return units[-1] if units is _BYTES else units[1]
    return next((unit for unit in units if abs(value) >= 0.9995 * unit[0]), units[-1])


def _decimals(value: float) -> int:
    return 0 if abs(value) >= 99.95 or value == 0 else 1 if abs(value) >= 9.995 else 2
