"""What Keras prints comes once, from rank 0: progress, lines of callbacks, summaries and warnings."""

from __future__ import annotations

import sys
import warnings

import keras


def only_on_rank_0(rank: int) -> None:
    """On another rank, silence Keras's lines, and its warnings unless the user chose what happens to warnings."""
    if not rank:
        return
    keras.config.disable_interactive_logging()
    if not sys.warnoptions:
        warnings.filterwarnings("ignore", module=r"keras\.")
