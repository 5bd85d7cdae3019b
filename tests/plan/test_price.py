"""Prices keep the currency that was given."""

from __future__ import annotations

import pytest

from abreast.errors import DataError
from abreast.plan.price import parse_price


@pytest.mark.parametrize(
    ("given", "amount", "currency", "shown"),
    [
        ("2.50 EUR", 2.5, "EUR", "1,234.50 EUR"),
        ("2.50EUR", 2.5, "EUR", "1,234.50EUR"),
        ("EUR 2.5", 2.5, "EUR", "EUR 1,234.50"),
        ("$3", 3.0, "$", "$1,234.50"),
        ("3 €", 3.0, "€", "1,234.50 €"),
        ("3", 3.0, None, "1,234.50"),
        (".5", 0.5, None, "1,234.50"),
        ("1e-3 CHF", 0.001, "CHF", "1,234.50 CHF"),
    ],
)
def test_an_amount_is_shown_in_the_currency_that_was_given(
    given: str, amount: float, currency: str | None, shown: str
) -> None:
    price = parse_price(given)
    assert (price.amount, price.currency, price.words(1234.5)) == (amount, currency, shown)


def test_a_small_amount_is_not_rounded_to_nothing() -> None:
    price = parse_price("$3")
    assert [price.words(amount) for amount in (0.0042, 0.5, 0)] == ["$0.0042", "$0.50", "$0.00"]


@pytest.mark.parametrize(
    "given", ["", "EUR", "-3", "nan", "inf", "1e999", "2,50 EUR", "$3 USD", "3 4", "3 EUR/h", "--3"]
)
def test_what_is_no_price_is_refused(given: str) -> None:
    with pytest.raises(DataError, match="--price") as caught:
        parse_price(given)
    assert "2.50 EUR" in (caught.value.hint or "")
