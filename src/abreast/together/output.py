"""Output that is equal in all processes, printed by rank 0 only: Keras's progress, lines and warnings, and ours."""

from __future__ import annotations

import sys
import warnings

import keras

from abreast.stderr import leave_to_rank_0


def only_on_rank_0(rank: int) -> None:
    """Silence this output on other ranks, except warnings if the user configured them (`-W`)."""
    if not rank:
        return
    leave_to_rank_0()
    keras.config.disable_interactive_logging()
    if not sys.warnoptions:
        warnings.filterwarnings("ignore", module=r"(keras|abreast)\.")
