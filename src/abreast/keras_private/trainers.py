"""The base class of every framework's trainer, `BaseTrainer` (up to 3.15 named `Trainer`), the iterator of an epoch, and the
container of the metrics of `compile`."""

from __future__ import annotations

from typing import Any

from keras.src.trainers import trainer
from keras.src.trainers.compile_utils import CompileMetrics
from keras.src.trainers.epoch_iterator import EpochIterator

__all__ = ["BaseTrainer", "CompileMetrics", "EpochIterator"]

BaseTrainer: Any = getattr(trainer, "BaseTrainer", None) or trainer.Trainer
