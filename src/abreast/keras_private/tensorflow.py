"""Keras's TensorFlow trainer. Imports TensorFlow: for the TensorFlow backend only.

`TensorFlowTrainer` is named `Trainer` in 3.16. Since 3.16, a step is first traced for the rows of the first batch
(`FIRST_ROWS_ARE_KNOWN`), and then for any other number of rows.
"""

from __future__ import annotations

from typing import Any

from keras.src.backend.tensorflow import trainer
from keras.src.backend.tensorflow.trainer import TFEpochIterator, concat

__all__ = ["FIRST_ROWS_ARE_KNOWN", "TFEpochIterator", "TensorFlowTrainer", "concat"]

TensorFlowTrainer: Any = getattr(trainer, "TensorFlowTrainer", None) or trainer.Trainer
FIRST_ROWS_ARE_KNOWN = not hasattr(trainer, "TensorFlowTrainer")
