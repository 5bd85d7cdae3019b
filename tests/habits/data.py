"""Small made-up data that the scripts train on: always the same. Imports no framework."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def regression(rows: int = 46, features: int = 6, seed: int = 0) -> tuple[Array, Array]:
    """Rows of numbers, and a number to each that depends on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)).astype("float32")
    y = np.tanh(x @ rng.normal(size=(features, 1))) + 0.1 * rng.normal(size=(rows, 1))
    return x, y.astype("float32")


def classification(rows: int = 46, features: int = 6, classes: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """Rows of numbers, and the class of each."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)).astype("float32")
    return x, np.argmax(x @ rng.normal(size=(features, classes)), axis=-1).astype("int32")


def images(rows: int = 30, size: int = 8, channels: int = 1, classes: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """Pictures with numbers from 0 to 1, each brighter for a higher class, and the classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows).astype("int32")
    pixels = rng.uniform(size=(rows, size, size, channels)) * (1 + labels[:, None, None, None]) / classes
    return pixels.astype("float32"), labels


def tokens(rows: int = 30, length: int = 7, words: int = 20, seed: int = 0) -> tuple[Array, Array]:
    """Rows of word numbers, ended by zeros, and whether word 1 is among them."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(1, words, (rows, length))
    ids[np.arange(length) >= rng.integers(2, length + 1, (rows, 1))] = 0
    return ids.astype("int32"), (ids == 1).any(axis=1).astype("float32")


def series(rows: int = 30, steps: int = 9, features: int = 2, seed: int = 0) -> tuple[Array, Array]:
    """Noisy waves, and the mean of the last steps of each."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 6, (rows, 1, features))
    x = np.sin(phase + np.arange(steps)[:, None]) + 0.1 * rng.normal(size=(rows, steps, features))
    return x.astype("float32"), x[:, -3:].mean(axis=(1, 2), keepdims=True)[:, 0].astype("float32")
