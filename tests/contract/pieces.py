"""Losses, optimizers, metrics and callbacks of the contract tests by name, and the arguments of `compile` for a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import losses, metrics, ops, optimizers

from tests.contract.cases import Case


@dataclass(frozen=True)
class LossPiece:
    """`target` names the targets that it works on; `make(reduction)` returns the argument of `compile(loss=...)`."""

    target: str
    make: Callable[[str], Any]


def per_row(y_true: Any, y_pred: Any) -> Any:
    """A user's function that returns a value per row."""
    return ops.mean(ops.abs(y_true - y_pred) ** 1.5, axis=-1)


def of_batch(y_true: Any, y_pred: Any) -> Any:
    """A user's function that returns one value for the batch, not a mean over its rows."""
    return ops.sqrt(ops.mean(ops.square(y_true - y_pred)) + 1e-3)


def mixing_rows(y_true: Any, y_pred: Any) -> Any:
    """A user's function that returns a value per row that depends on the other rows."""
    error = y_true - y_pred
    return ops.mean(ops.square(error - ops.mean(error, axis=0)), axis=-1)


class OwnLoss(losses.Loss):  # type: ignore[misc]
    def call(self, y_true: Any, y_pred: Any) -> Any:
        return ops.mean(ops.square(y_true - y_pred) * ops.abs(y_true), axis=-1)


def _keras_loss(target: str, kind: Any, **options: Any) -> LossPiece:
    return LossPiece(target, lambda reduction: kind(reduction=reduction, **options))


LOSSES: dict[str, LossPiece] = {
    "binary_crossentropy": _keras_loss("binary", losses.BinaryCrossentropy, label_smoothing=0.1),
    "binary_focal_crossentropy": _keras_loss("binary", losses.BinaryFocalCrossentropy),
    "categorical_crossentropy": _keras_loss("onehot", losses.CategoricalCrossentropy),
    "categorical_focal_crossentropy": _keras_loss("onehot", losses.CategoricalFocalCrossentropy),
    "categorical_generalized": _keras_loss("classes", losses.CategoricalGeneralizedCrossEntropy),
    "categorical_hinge": _keras_loss("onehot", losses.CategoricalHinge),
    "circle": _keras_loss("embedding", losses.Circle, gamma=2.0),
    "cosine_similarity": _keras_loss("values", losses.CosineSimilarity),
    "ctc": _keras_loss("labels", losses.CTC),
    "dice": _keras_loss("onehot", losses.Dice),
    "hinge": _keras_loss("binary", losses.Hinge),
    "huber": _keras_loss("values", losses.Huber),
    "kl_divergence": _keras_loss("onehot", losses.KLDivergence),
    "log_cosh": _keras_loss("values", losses.LogCosh),
    "mae": _keras_loss("values", losses.MeanAbsoluteError),
    "mape": _keras_loss("positive", losses.MeanAbsolutePercentageError),
    "mixing_rows": LossPiece("values", lambda _: mixing_rows),
    "mse": _keras_loss("values", losses.MeanSquaredError),
    "msle": _keras_loss("positive", losses.MeanSquaredLogarithmicError),
    "of_batch": LossPiece("values", lambda _: of_batch),
    "own": _keras_loss("values", OwnLoss),
    "per_row": LossPiece("values", lambda _: per_row),
    "poisson": _keras_loss("positive", losses.Poisson),
    "sparse_categorical_crossentropy": _keras_loss("classes", losses.SparseCategoricalCrossentropy),
    "squared_hinge": _keras_loss("binary", losses.SquaredHinge),
    "tversky": _keras_loss("onehot", losses.Tversky),
}


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optimizers.SGD(0.1, momentum=0.9),
    "sgd_nesterov": lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda: optimizers.Adam(0.02),
    "amsgrad": lambda: optimizers.Adam(0.02, amsgrad=True),
    "adamw_clipnorm": lambda: optimizers.AdamW(0.02, weight_decay=0.02, clipnorm=0.02),
    "adamw_global_clipnorm": lambda: optimizers.AdamW(0.02, weight_decay=0.02, global_clipnorm=0.05),
    "sgd_clipvalue": lambda: optimizers.SGD(0.1, momentum=0.9, clipvalue=0.01),
    "sgd_global_clipnorm": lambda: optimizers.SGD(0.1, global_clipnorm=0.05),
    "ema": lambda: optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3),
    "ema_at_end": lambda: optimizers.Adam(0.02, use_ema=True, ema_momentum=0.8),
    "accumulate": lambda: optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=2),
    "adam_accumulate": lambda: optimizers.Adam(0.02, gradient_accumulation_steps=3, global_clipnorm=0.1),
    "accumulate_scaled": lambda: optimizers.SGD(0.1, gradient_accumulation_steps=2, loss_scale_factor=64.0),
    "loss_scale": lambda: optimizers.LossScaleOptimizer(
        optimizers.SGD(0.1, momentum=0.9), initial_scale=1024.0, dynamic_growth_steps=2
    ),
    # Half precision overflows at the first scale: the first steps are skipped on every device alike.
    "loss_scale_overflow": lambda: optimizers.LossScaleOptimizer(
        optimizers.SGD(0.1), initial_scale=2.0**24, dynamic_growth_steps=3
    ),
    # Half precision overflows at times, and at twice the scale always.
    "loss_scale_edge": lambda: optimizers.LossScaleOptimizer(
        optimizers.SGD(0.1), initial_scale=2.0**19, dynamic_growth_steps=2
    ),
    "schedule": lambda: optimizers.SGD(optimizers.schedules.ExponentialDecay(0.2, 2, 0.5)),
    "rmsprop": lambda: optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "adagrad": lambda: optimizers.Adagrad(0.1),
    "adadelta": lambda: optimizers.Adadelta(1.0),
    "adafactor": lambda: optimizers.Adafactor(0.05),
    "adamax": lambda: optimizers.Adamax(0.02),
    "nadam": lambda: optimizers.Nadam(0.02),
    "ftrl": lambda: optimizers.Ftrl(0.1),
    "lamb": lambda: optimizers.Lamb(0.02),
    "lion": lambda: optimizers.Lion(0.01),
}


class LargestPrediction(metrics.Metric):  # type: ignore[misc]
    """A user's metric whose state takes a maximum."""

    def __init__(self, name: str = "largest", **options: Any) -> None:
        super().__init__(name=name, **options)
        self.largest = self.add_weight(name="largest", initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.largest.assign(ops.maximum(self.largest, ops.cast(ops.max(y_pred), self.dtype)))

    def result(self) -> Any:
        return self.largest.value


class BatchesSeen(metrics.Metric):  # type: ignore[misc]
    """A user's metric that counts calls: one a batch, however many devices share it."""

    def __init__(self, name: str = "batches", **options: Any) -> None:
        super().__init__(name=name, **options)
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.count.assign_add(1.0)

    def result(self) -> Any:
        return self.count.value


def error_of_largest(y_true: Any, y_pred: Any) -> Any:
    """A user's metric function: a value per row."""
    return ops.max(ops.abs(ops.cast(y_true, y_pred.dtype) - y_pred), axis=-1)


def spread(y_true: Any, y_pred: Any) -> Any:
    """A user's metric function: one value for the batch, which relates its rows."""
    return ops.max(y_pred) - ops.min(y_pred)


def _top_2(kind: Any) -> Any:
    if keras.config.floatx() == "float32":
        return kind(2, name="top_2")
    if kind is metrics.TopKCategoricalAccuracy:
        return metrics.MeanMetricWrapper(top_2_of_one_hot, name="top_2")
    return metrics.MeanMetricWrapper(top_2, name="top_2")


def top_2(y_true: Any, y_pred: Any) -> Any:
    """Keras's, which on TensorFlow takes float32 only."""
    return metrics.sparse_top_k_categorical_accuracy(y_true, ops.cast(y_pred, "float32"), 2)


def top_2_of_one_hot(y_true: Any, y_pred: Any) -> Any:
    return metrics.top_k_categorical_accuracy(ops.cast(y_true, "float32"), ops.cast(y_pred, "float32"), 2)


_THRESHOLDS = 12

METRICS: dict[str, Callable[[], Any]] = {
    "accuracy": lambda: "accuracy",
    "auc": lambda: metrics.AUC(num_thresholds=_THRESHOLDS, name="auc"),
    "auc_pr": lambda: metrics.AUC(num_thresholds=_THRESHOLDS, curve="PR", name="auc_pr"),
    "auc_multi_label": lambda: metrics.AUC(num_thresholds=_THRESHOLDS, multi_label=True, num_labels=3, name="auc_ml"),
    "batches": BatchesSeen,
    "binary_accuracy": lambda: metrics.BinaryAccuracy(name="binary_accuracy"),
    "binary_crossentropy": lambda: metrics.BinaryCrossentropy(name="bce"),
    "binary_iou": lambda: metrics.BinaryIoU(name="binary_iou"),
    "categorical_crossentropy": lambda: metrics.CategoricalCrossentropy(name="cce"),
    "categorical_hinge": lambda: metrics.CategoricalHinge(name="categorical_hinge"),
    "concordance": lambda: metrics.ConcordanceCorrelation(name="concordance"),
    "cosine": lambda: metrics.CosineSimilarity(name="cosine"),
    "error_of_largest": lambda: error_of_largest,
    "f1": lambda: metrics.F1Score(average="macro", name="f1"),
    "fbeta": lambda: metrics.FBetaScore(beta=2.0, threshold=0.4, name="fbeta"),
    "false_negatives": lambda: metrics.FalseNegatives(name="fn"),
    "false_positives": lambda: metrics.FalsePositives(name="fp"),
    "kl_divergence": lambda: metrics.KLDivergence(name="kl"),
    "largest": LargestPrediction,
    "log_cosh": lambda: metrics.LogCoshError(name="log_cosh"),
    "mae": lambda: metrics.MeanAbsoluteError(name="mae"),
    "mean_iou": lambda: metrics.MeanIoU(3, sparse_y_pred=False, name="mean_iou"),
    "mse": lambda: metrics.MeanSquaredError(name="mse"),
    "one_hot_iou": lambda: metrics.OneHotMeanIoU(3, name="one_hot_iou"),
    "pearson": lambda: metrics.PearsonCorrelation(name="pearson"),
    "precision": lambda: metrics.Precision(name="precision"),
    "precision_at_recall": lambda: metrics.PrecisionAtRecall(0.5, num_thresholds=_THRESHOLDS, name="p_at_r"),
    "r2": lambda: metrics.R2Score(name="r2"),
    "recall": lambda: metrics.Recall(thresholds=[0.3, 0.6], name="recall"),
    "rmse": lambda: metrics.RootMeanSquaredError(name="rmse"),
    "sensitivity": lambda: metrics.SensitivityAtSpecificity(0.5, num_thresholds=_THRESHOLDS, name="sensitivity"),
    "sparse_top_k": lambda: _top_2(metrics.SparseTopKCategoricalAccuracy),
    "spread": lambda: spread,
    "top_k": lambda: _top_2(metrics.TopKCategoricalAccuracy),
    "true_positives": lambda: metrics.TruePositives(name="tp"),
}


class SetWeightsMidEpoch(keras.callbacks.Callback):  # type: ignore[misc]
    """Shrinks every weight after the second batch of the first epoch."""

    epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.epoch == 0 and batch == 1:
            self.model.set_weights([weight * 0.9 for weight in self.model.get_weights()])


class StopMidEpoch(keras.callbacks.Callback):  # type: ignore[misc]
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.model.stop_training = batch == 1


class LearningRateMidEpoch(keras.callbacks.Callback):  # type: ignore[misc]
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = 0.1 / (1 + batch)


class ClipsFarOff(keras.callbacks.Callback):  # type: ignore[misc]
    """Sets a limit that no gradient reaches, at batches where accumulated gradients wait."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch % 3 == 2:
            self.model.optimizer.clipvalue = 1e6 + batch


class ReadsWeights(keras.callbacks.Callback):  # type: ignore[misc]
    """Records the sum of all weights after each batch: a callback reads the newest weights."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if logs is not None:
            logs["sum_of_weights"] = float(sum(np.sum(weight) for weight in self.model.get_weights()))


CALLBACKS: dict[str, Callable[[], Any]] = {
    "early_stopping": lambda: keras.callbacks.EarlyStopping("loss", mode="max", patience=1, restore_best_weights=True),
    "learning_rate_mid_epoch": LearningRateMidEpoch,
    "learning_rate_scheduler": lambda: keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5),
    "clips_far_off": ClipsFarOff,
    "reads_weights": ReadsWeights,
    "reduce_on_plateau": lambda: keras.callbacks.ReduceLROnPlateau("loss", factor=0.3, patience=0, min_delta=100.0),
    "set_weights": SetWeightsMidEpoch,
    "stop": StopMidEpoch,
    "swap_ema": lambda: keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
    "terminate_on_nan": keras.callbacks.TerminateOnNaN,
}


def compile_arguments(case: Case) -> dict[str, Any]:
    loss = LOSSES[case.loss].make(case.reduction)
    arguments: dict[str, Any] = {
        "optimizer": OPTIMIZERS[case.optimizer](),
        "loss": loss,
        "metrics": [METRICS[name]() for name in case.metrics] or None,
        "weighted_metrics": [METRICS[name]() for name in case.weighted_metrics] or None,
        "jit_compile": case.jit_compile,
        "run_eagerly": case.run_eagerly,
        "steps_per_execution": case.steps_per_execution,
    }
    if case.model == "multi":
        arguments["loss"] = {"label": loss, "value": losses.MeanSquaredError()}
        arguments["loss_weights"] = {"label": 0.7, "value": 0.3}
        for name in ("metrics", "weighted_metrics"):
            arguments[name] = {"label": arguments[name], "value": [metrics.R2Score(name="r2")]}
    return arguments
