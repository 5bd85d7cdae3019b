"""Bodies for workers: only they import Keras."""

from __future__ import annotations

from typing import Any


def names() -> list[str]:
    from tests.outside import things

    return things.names()


def numbers(**job: Any) -> list[Any]:
    import keras

    from tests.outside import things

    keras.backend.clear_session(free_memory=False)  # the same names on both sides
    return things.numbers(**job)
