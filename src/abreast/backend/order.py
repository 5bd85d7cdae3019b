"""The random state that sources shuffle with (Python's and NumPy's), as a text that rank 0 gives to the others."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np


def save() -> str:
    legacy: Any = np.random.get_state()
    return json.dumps({"numpy": [legacy[0], legacy[1].tolist(), *legacy[2:]], "python": random.getstate()})


def restore(text: str) -> None:
    state = json.loads(text)
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), *rest))
    version, words, next_gauss = state["python"]
    random.setstate((version, tuple(words), next_gauss))
