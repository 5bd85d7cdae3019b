"""Replaces functions of Keras by those of this package; outside our steps and runs they behave like Keras's own."""

from __future__ import annotations

import functools

import keras

from abreast.exact import added_losses, assignments, calls, layers, losses, metrics, overflow
from abreast.exact.dry_run import RANDOM_FUNCTIONS
from abreast.keras_private.backend import random
from abreast.keras_private.losses import loss as keras_loss
from abreast.keras_private.optimizers import BaseOptimizer, LossScaleOptimizer


@functools.cache
def install() -> None:
    """Replace the functions. Runs once per process."""
    keras_loss.reduce_weighted_values = losses.reduce_values
    keras_loss.scale_loss_for_distribution = losses.unless_inside(keras_loss.scale_loss_for_distribution)
    keras_loss.unscale_loss_for_distribution = losses.unless_inside(keras_loss.unscale_loss_for_distribution)
    keras.layers.BatchNormalization._moments = layers.moments
    keras.random.SeedGenerator.next = layers.next_seed
    for name in RANDOM_FUNCTIONS:
        setattr(random, name, layers.announced(getattr(random, name)))
    keras.layers.Layer.add_weight = layers.add_weight
    keras.layers.Layer.add_loss = added_losses.add_loss
    keras.layers.Layer._clear_losses = added_losses.clear_losses
    for kind in (BaseOptimizer, LossScaleOptimizer):
        kind.apply = calls.noted(assignments.by_optimizer(kind.apply))
    BaseOptimizer.scale_loss = overflow.announced_if_constant(BaseOptimizer.scale_loss)
    LossScaleOptimizer.scale_loss = overflow.scaled_by_share(LossScaleOptimizer.scale_loss)
    keras.Variable.assign = assignments.noted(keras.Variable.assign)
    keras.metrics.Metric.__init__ = metrics.made(keras.metrics.Metric.__init__)
    keras.layers.Layer.losses = property(added_losses.losses)
