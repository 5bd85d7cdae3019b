"""The optimizer classes that apply gradients."""

from __future__ import annotations

from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.optimizers.loss_scale_optimizer import LossScaleOptimizer

__all__ = ["BaseOptimizer", "LossScaleOptimizer"]
