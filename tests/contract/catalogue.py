"""Every job that the contract is tested with, by name, in groups. Data only; imports no framework.

`test_contract.py` runs them in float32, `matrix.py` in float64 on every number of devices.
"""

from __future__ import annotations

from typing import Any

from tests.contract.cases import Case
from tests.harness.installed import keras_is_older_than

CLASSES = ("accuracy", "sparse_top_k")  # also of every time step of a sequence
ONE_HOT = (
    "auc_multi_label",
    "categorical_crossentropy",
    "categorical_hinge",
    "f1",
    "fbeta",
    "kl_divergence",
    "one_hot_iou",
    "top_k",
)
BINARY = (
    "auc",
    "auc_pr",
    "binary_accuracy",
    "binary_crossentropy",
    "binary_iou",
    "false_negatives",
    "false_positives",
    "precision",
    "precision_at_recall",
    "recall",
    "sensitivity",
    "true_positives",
)
VALUES = ("concordance", "cosine", "log_cosh", "mae", "mse", "pearson", "r2", "rmse")
OWN = ("batches", "error_of_largest", "largest", "spread")


def one_shape(**settings: Any) -> Case:
    """Training only, in batches of 7 rows, which no number of devices divides: one program to compile."""
    return Case(**{"script": "train", "rows": 21, "batch_size": 7, **settings})


def two_shapes(**settings: Any) -> Case:
    """Training only, with a last batch of 3 rows, fewer than 4 devices."""
    return Case(**{"script": "train", "rows": 10, "batch_size": 7, **settings})


MODELS = {
    "dense": Case(metrics=CLASSES),
    "convolution and batch normalization": Case(model="conv_norm", metrics=CLASSES),
    "LSTM with a mask": Case(model="lstm_mask", optimizer="adam"),
    "sequence with a mask up to the loss": Case(model="sequence_mask", metrics=CLASSES, weighted_metrics=("accuracy",)),
    "attention": Case(model="attention"),
    "two inputs and two outputs": Case(model="multi", metrics=CLASSES, validation="data"),
    "regularizers, add_loss and a constraint": Case(model="regularized", validation="data"),
    "subclassed": Case(model="subclassed", metrics=CLASSES),
    "own compute_loss that mixes rows": Case(model="own_compute_loss", loss="mse"),
    "own compute_loss that reads weights": Case(model="reads_weights"),
    "own compute_metrics": Case(model="own_compute_metrics", loss="mse", metrics=("mae",), validation="data"),
    "loss and metric in a layer": Case(model="endpoint", validation="data"),
    "own train_step": Case(model="own_train_step", script="train"),
    "Keras's steps called by the user's": Case(model="inherited_step", metrics=CLASSES, validation="data"),
    "own train_step with metrics": Case(
        model="own_train_step_with_metrics", metrics=(*CLASSES, "largest"), script="train", batch_size=9
    ),
    "preprocessing layers": Case(model="prepared", epochs=1),
    "connectionist temporal classification": Case(model="ctc", loss="ctc"),
}

LOSSES = {
    "binary crossentropy, sum": one_shape(loss="binary_crossentropy", reduction="sum"),
    "binary focal crossentropy": one_shape(loss="binary_focal_crossentropy"),
    "categorical crossentropy, mean": one_shape(loss="categorical_crossentropy", reduction="mean", class_weight=True),
    "categorical focal crossentropy": one_shape(loss="categorical_focal_crossentropy"),
    "categorical generalized crossentropy": one_shape(loss="categorical_generalized"),
    "categorical hinge": one_shape(loss="categorical_hinge"),
    "circle": one_shape(loss="circle"),
    "cosine similarity": one_shape(loss="cosine_similarity"),
    "dice": one_shape(loss="dice"),
    "hinge": one_shape(loss="hinge"),
    "huber": one_shape(loss="huber"),
    "Kullback-Leibler": one_shape(loss="kl_divergence"),
    "log cosh": one_shape(loss="log_cosh"),
    "mean absolute error": one_shape(loss="mae"),
    "mean absolute percentage error": one_shape(loss="mape", optimizer="adam", reduction="mean_with_sample_weight"),
    "mean squared logarithmic error": one_shape(loss="msle"),
    "Poisson": one_shape(loss="poisson", sample_weight="random"),
    "squared hinge": one_shape(loss="squared_hinge"),
    "Tversky": one_shape(loss="tversky"),
    "own loss class": one_shape(loss="own", sample_weight="random"),
    "own function, a value per row": one_shape(loss="per_row", sample_weight="random"),
    "own function, a value per batch": one_shape(loss="of_batch"),
    "own function that mixes rows": one_shape(loss="mixing_rows"),
}

WEIGHTS = {
    f"{reduction} of the losses, weights {weights}": two_shapes(
        loss="mse", reduction=reduction, sample_weight=weights, metrics=("mae",), weighted_metrics=("mae",)
    )
    for reduction in ("sum_over_batch_size", "sum", "mean", "mean_with_sample_weight")
    for weights in ("random", "zeros in front")
} | {
    "mean with sample weights, no weight in one batch": two_shapes(
        loss="mse", reduction="mean_with_sample_weight", sample_weight="all zero in one batch"
    ),
    "class weights": two_shapes(class_weight=True, weighted_metrics=CLASSES),
    "weights of two outputs": two_shapes(model="multi", sample_weight="random", weighted_metrics=CLASSES),
    "mask, weights per time step and their mean": two_shapes(
        model="sequence_mask", sample_weight="by step", reduction="mean_with_sample_weight"
    ),
    "a weight per time step": two_shapes(
        # Not a mean: for those, Keras 3.15 on PyTorch scales the caller's weights in place, and its metrics are wrong.
        model="sequence_mask",
        sample_weight="by step",
        weighted_metrics=CLASSES,
        reduction="sum",
    ),
    "sum over a mask": two_shapes(model="sequence_mask", reduction="sum"),
    "batch normalization and sample weights": two_shapes(model="conv_norm", sample_weight="zeros in front"),
}

METRICS = {
    "metrics of classes": two_shapes(
        metrics=(*CLASSES, "mean_iou"), weighted_metrics=(*CLASSES, "mean_iou"), sample_weight="random"
    ),
    "metrics of one-hot classes": two_shapes(loss="categorical_crossentropy", metrics=ONE_HOT),
    "weighted metrics of one-hot classes": two_shapes(
        loss="categorical_crossentropy", weighted_metrics=ONE_HOT, sample_weight="zeros in front"
    ),
    "binary metrics": two_shapes(loss="binary_crossentropy", metrics=BINARY),
    "weighted binary metrics": two_shapes(loss="binary_crossentropy", weighted_metrics=BINARY, sample_weight="random"),
    "metrics of values": two_shapes(loss="mse", metrics=VALUES),
    "weighted metrics of values": two_shapes(loss="mse", weighted_metrics=VALUES, sample_weight="random"),
    "the user's metrics": two_shapes(loss="mse", metrics=OWN, validation="data"),
}

OPTIMIZERS = {
    "SGD with Nesterov momentum and weight decay": one_shape(optimizer="sgd_nesterov"),
    "Adam": one_shape(optimizer="adam"),
    "AMSGrad": one_shape(optimizer="amsgrad"),
    "AdamW, clipnorm": one_shape(optimizer="adamw_clipnorm"),
    "AdamW, global_clipnorm": one_shape(optimizer="adamw_global_clipnorm", model="regularized"),
    "SGD, clipvalue": one_shape(optimizer="sgd_clipvalue"),
    "SGD, global_clipnorm": one_shape(optimizer="sgd_global_clipnorm", model="conv_norm"),
    "moving average that overwrites": one_shape(optimizer="ema"),
    "moving average at the end": one_shape(optimizer="ema_at_end"),
    "gradient accumulation": one_shape(optimizer="accumulate", model="conv_norm"),
    "gradient accumulation, Adam, clipping": one_shape(optimizer="adam_accumulate"),
    "loss scaling": one_shape(optimizer="loss_scale"),
    "learning-rate schedule": one_shape(optimizer="schedule"),
    "RMSprop": one_shape(optimizer="rmsprop"),
    "Adagrad": one_shape(optimizer="adagrad"),
    "Adadelta": one_shape(optimizer="adadelta"),
    "Adafactor": one_shape(optimizer="adafactor"),
    "Adamax": one_shape(optimizer="adamax"),
    "Nadam": one_shape(optimizer="nadam"),
    "Ftrl": one_shape(optimizer="ftrl"),
    "Lamb": one_shape(optimizer="lamb"),
    "Lion": one_shape(optimizer="lion"),
}

# PyTorch adds the gradients of large models otherwise than those of small ones.
LARGE = {
    "large": Case(model="wide", metrics=CLASSES, validation="data", sample_weight="random"),
    "large, weights without a gradient": Case(model="wide_with_unused", metrics=CLASSES),
    "large, gradient accumulation": one_shape(model="wide", optimizer="adam_accumulate"),
    "large, float16, overflow": Case(model="wide", policy="mixed_float16", optimizer="loss_scale_edge"),
    "large, trainable changed between fits": Case(model="wide", optimizer="adam", script="trainable_changed"),
    "large, saved and loaded": Case(model="wide", optimizer="adam", script="saved_and_loaded"),
    "large, 1 row": Case(model="wide", rows=1, batch_size=8),
}

ROWS = {
    "97 rows in batches of 32": Case(rows=97, batch_size=32, model="conv_norm"),
    "98 rows in batches of 32": Case(rows=98, batch_size=32, model="conv_norm", validation="data"),
    "32 rows in one batch": Case(rows=32, batch_size=32, model="conv_norm"),
    "3 rows": Case(rows=3, batch_size=32, model="conv_norm", metrics=CLASSES),
    "1 row": Case(rows=1, batch_size=8, metrics=CLASSES),
    "batches of 3": Case(rows=10, batch_size=3, model="conv_norm", metrics=CLASSES),
    "batches of 1": Case(rows=3, batch_size=1, loss="mse", metrics=("mae",)),
    "1 row with a mask": Case(rows=1, batch_size=8, model="sequence_mask"),
}

FIT = {
    "validation_split": Case(validation="split", model="conv_norm", metrics=CLASSES),
    "validation_data with weights": Case(validation="data", sample_weight="random", weighted_metrics=CLASSES),
    "shuffled": Case(shuffle=True, metrics=CLASSES),
    "evaluate and predict before fit": Case(script="evaluate_and_predict_first", model="conv_norm", metrics=CLASSES),
    "one batch at a time": Case(script="on_batch", model="conv_norm", metrics=CLASSES),
    "one batch at a time, gradient accumulation": Case(script="on_batch", optimizer="accumulate_scaled"),
    "one weighted batch at a time": Case(script="on_batch", sample_weight="random", weighted_metrics=CLASSES),
    "thawed after a fit": Case(script="thawed", model="sequential", optimizer="adam"),
    "trainable changed between fits": Case(script="trainable_changed", model="sequential", optimizer="adam"),
    "a second fit with initial_epoch": Case(script="two_fits", optimizer="adam", metrics=CLASSES),
    "weights set between fits": Case(script="weights_set_between", metrics=CLASSES),
    "trained before by plain Keras": Case(script="trained_before", model="sequential", optimizer="adam"),
    "saved and loaded": Case(script="saved_and_loaded", model="conv_norm", optimizer="adam"),
    "parallelized before compile": Case(entry="parallelize first", metrics=CLASSES),
    "made in a DataParallel scope": Case(entry="scope", model="conv_norm", metrics=CLASSES),
    "a Sequential that is not built": Case(model="unbuilt", metrics=CLASSES),
    "a Sequential not built, made in a scope": Case(model="unbuilt", entry="scope", optimizer="adam"),
    "run eagerly": Case(run_eagerly=True, epochs=1, metrics=CLASSES),
    "jit_compile": Case(jit_compile=True, epochs=1, model="conv_norm"),
    "several steps per execution": Case(steps_per_execution=2, rows=32, metrics=CLASSES),
    "several steps per execution, short batch": Case(steps_per_execution=3, metrics=CLASSES),
}

CALLBACKS = {
    f"callback: {name.replace('_', ' ')}": Case(callbacks=(name,), epochs=3, model=model)
    for name, model in {
        "early_stopping": "sequential",
        "learning_rate_mid_epoch": "dense",
        "learning_rate_scheduler": "dense",
        "reads_weights": "conv_norm",
        "reduce_on_plateau": "dense",
        "set_weights": "dense",
        "stop": "dense",
        "terminate_on_nan": "dense",
    }.items()
} | {
    "callback: swap EMA": Case(callbacks=("swap_ema",), optimizer="ema_at_end", epochs=2, validation="data"),
    "callback: new settings while gradients accumulate": Case(callbacks=("clips_far_off",), optimizer="accumulate"),
}

SOURCES = {
    f"source: {name.replace('_', ' ')}": Case(source=name, model="conv_norm", sample_weight=weight)
    for name, weight in {
        "endless": "",
        "endless_dataset": "",
        "generator": "random",
        "grain": "",
        "py_dataset": "random",
        "tensors": "random",
        "tf_data": "random",
        "torch_loader": "random",
    }.items()
} | {
    "source: tf data of two inputs": Case(
        source="tf_data", model="multi", sample_weight="random", validation="dataset"
    ),
    "source: generator of two inputs": Case(source="endless", model="multi"),
}

PRECISION = {
    "bfloat16": Case(policy="mixed_bfloat16", model="conv_norm", rows=22),
    "float16, scaled losses": Case(policy="mixed_float16", model="dense", optimizer="loss_scale"),
    "float16, overflow": Case(policy="mixed_float16", model="dense", optimizer="loss_scale_overflow"),
}

# Where row numbers decide, these are run on every number of devices, always.
EVERY_NUMBER_OF_DEVICES = {"98 rows in batches of 32", "3 rows", "1 row"}
# Jobs that plain Keras refuses, and on which backends.
_UP_TO_3_15 = ("torch",) if keras_is_older_than("3.16") else ()
REFUSED_BY_KERAS: dict[str, tuple[str, ...]] = {
    "several steps per execution": _UP_TO_3_15,
    "several steps per execution, short batch": _UP_TO_3_15,
}

CASES: dict[str, Case] = {
    **MODELS, **LOSSES, **WEIGHTS, **METRICS, **OPTIMIZERS, **LARGE, **ROWS, **FIT, **CALLBACKS, **SOURCES, **PRECISION
}  # fmt: skip
