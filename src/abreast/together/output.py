"""Lines that all processes would print alike come once, from rank 0: Keras's progress, lines and warnings, and ours."""

from __future__ import annotations

import sys
import warnings

import keras

from abreast.stderr import leave_to_rank_0


def only_on_rank_0(rank: int) -> None:
    """On another rank, silence these, except Keras's warnings if the user chose what happens to warnings."""
    if not rank:
        return
    leave_to_rank_0()
    keras.config.disable_interactive_logging()
    if not sys.warnoptions:
        warnings.filterwarnings("ignore", module=r"(keras|abreast)\.")
