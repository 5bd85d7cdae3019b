"""A `PyDataset` of rows in memory, in its own module so that worker processes can import it."""

from __future__ import annotations

from typing import Any

import keras


class Rows(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
    def __init__(self, x: Any, y: Any, batch_size: int, **workers: Any) -> None:
        super().__init__(**workers)
        self.x, self.y, self.batch_size = x, y, batch_size

    def __len__(self) -> int:
        return len(self.x) // self.batch_size

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        rows = slice(index * self.batch_size, (index + 1) * self.batch_size)
        return self.x[rows].copy(), self.y[rows].copy()
