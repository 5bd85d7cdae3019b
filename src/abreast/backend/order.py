"""The random state that sources shuffle with (Python's, NumPy's and PyTorch's), as a text that rank 0 gives to the others.

A `DataLoader` shuffles with PyTorch's generator on any backend, so it is included if the user's script has imported PyTorch.
Imports no framework.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import numpy as np


def save() -> str:
    legacy: Any = np.random.get_state()
    state = {"numpy": [legacy[0], legacy[1].tolist(), *legacy[2:]], "python": random.getstate()}
    if (torch := _torch()) is not None:
        state["torch"] = torch.get_rng_state().numpy().tobytes().hex()
    return json.dumps(state)


def restore(text: str) -> None:
    state = json.loads(text)
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), *rest))
    version, words, next_gauss = state["python"]
    random.setstate((version, tuple(words), next_gauss))
    if "torch" in state and (torch := _torch()) is not None:
        torch.set_rng_state(torch.frombuffer(bytearray.fromhex(state["torch"]), dtype=torch.uint8))


def _torch() -> Any:
    found = sys.modules.get("torch")
    return found if hasattr(found, "set_rng_state") else None
