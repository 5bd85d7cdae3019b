"""`make check-nightly` passes with the Keras that is installed. CI only shows its failures: the next Keras changes daily."""

from __future__ import annotations

import pytest

from tests import nightly


@pytest.mark.in_turn
def test_every_module_is_imported_and_one_model_trains(backend: str) -> None:
    assert nightly.passes(backend)
