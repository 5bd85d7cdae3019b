"""Keras's JAX trainer. Imports JAX: for the JAX backend only."""

from __future__ import annotations

from keras.src.backend.jax.trainer import JAXEpochIterator

__all__ = ["JAXEpochIterator"]
