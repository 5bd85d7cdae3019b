"""What every framework's trainer derives from: `BaseTrainer` (up to 3.15 named `Trainer`), and the iterator of an epoch."""

from __future__ import annotations

from typing import Any

from keras.src.trainers import trainer
from keras.src.trainers.epoch_iterator import EpochIterator

__all__ = ["BaseTrainer", "EpochIterator"]

BaseTrainer: Any = getattr(trainer, "BaseTrainer", None) or trainer.Trainer
