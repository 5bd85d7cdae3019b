"""A price with the currency that the user gave: `2.50 EUR`, `$3`, or a number alone."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from abreast.errors import DataError

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+")
_CURRENCY = re.compile(r"[^\W\d_]{1,12}|\W{1,3}")  # letters, or a sign such as $
_LEAST_CENTS = 0.1  # below it, two decimals are too few
_HINT = 'give zero or more, with its currency if you like, as 2.50, "2.50 EUR" or "$2.50"'


@dataclass(frozen=True)
class Price:
    """An amount, with the currency in `before` or `after`, including the user's space."""

    amount: float
    before: str = ""
    after: str = ""

    def words(self, amount: float) -> str:
        """The text of another amount in this currency."""
        if not math.isfinite(amount):
            return "unknown"
        number = f"{amount:.2g}" if 0 < amount < _LEAST_CENTS else f"{amount:,.2f}"
        return f"{self.before}{number}{self.after}"

    @property
    def currency(self) -> str | None:
        return (self.before or self.after).strip() or None


def parse_price(text: str) -> Price:
    """The price in a text. Raises `DataError`."""
    text = text.strip()
    found = _NUMBER.search(text)
    if found is None:
        raise DataError(f"--price {text}: there is no number in it", _HINT)
    before, after = text[: found.start()], text[found.end() :]
    if (before and after) or not _is_currency(before or after) or not math.isfinite(float(found.group())):
        raise DataError(f"--price {text} is not one number with one currency", _HINT)
    return Price(float(found.group()), before, after)


def _is_currency(text: str) -> bool:
    name = text.strip()
    return not name or (_CURRENCY.fullmatch(name) is not None and not set(name) & set("-+.,/"))
