"""What the campaign of `exactness.py` draws."""

from __future__ import annotations

from tests.checkpoints.exact.draw import draw


def test_a_draw_is_known_by_its_seed() -> None:
    assert draw(3, "jax") == draw(3, "jax") != draw(3, "torch")
