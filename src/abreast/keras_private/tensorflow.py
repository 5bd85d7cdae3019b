"""Keras's TensorFlow trainer. Imports TensorFlow: for the TensorFlow backend only.

`TensorFlowTrainer` is named `Trainer` in 3.16.
"""

from __future__ import annotations

from typing import Any

from keras.src.backend.tensorflow import trainer
from keras.src.backend.tensorflow.trainer import TFEpochIterator, concat

__all__ = ["TFEpochIterator", "TensorFlowTrainer", "concat"]

TensorFlowTrainer: Any = getattr(trainer, "TensorFlowTrainer", None) or trainer.Trainer
