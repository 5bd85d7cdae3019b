"""The form of a batch as plain data: the types and shapes of its arrays. A batch of zeros of that form builds a model.

So the source, which may count its reads or shuffle, is not read for that. Imports no framework.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from keras import tree

from abreast.arrays import map_arrays


def form_of(data: Any) -> Any:
    """The data of a batch with a text for each array, such as `float32[8, 3]`."""
    return map_arrays(_text, data)


def batch_of(form: Any) -> Any:
    """The data of a batch with that form."""
    return tree.map_structure(lambda text: None if text is None else _zeros(text), form)


def _text(leaf: Any) -> str:
    kind = getattr(leaf.dtype, "kind", "")
    name = "string" if kind in ("O", "S", "U") else getattr(leaf.dtype, "name", str(leaf.dtype))
    return f"{name}{list(map(int, leaf.shape))}"


def _zeros(text: str) -> Any:
    name, _, shape = text.partition("[")
    shape = json.loads(f"[{shape}")
    return np.full(shape, "", object) if name == "string" else np.zeros(shape, np.dtype(name))
