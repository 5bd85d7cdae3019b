"""Seeds the random generators of a script that runs several times: even without its own seeds, it computes the same each time."""

from __future__ import annotations

import random

SEED = 20140


def seed_before_keras() -> None:
    """Seed the generators that a script may use before it imports Keras."""
    import numpy as np

    random.seed(SEED)
    np.random.seed(SEED)


def seed_keras(*, with_tensorflow: bool = True) -> None:
    """Seed Keras and its framework, and leave Python's and NumPy's generators as they are.

    `with_tensorflow`: for the data sets of a script, also load TensorFlow if it is only installed.
    """
    import keras
    import numpy as np

    from abreast.keras_private import seeds

    legacy, python = np.random.get_state(), random.getstate()
    (keras.utils if with_tensorflow else seeds).set_random_seed(SEED)
    np.random.set_state(legacy)
    random.setstate(python)
