"""What a run of the campaign is: drawn from a seed, and nothing else. Imports no framework.

The names are those of functions in `sources.py`, `models.py`, `callbacks.py` and `scripts.py`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

SOURCES = (
    "arrays_shuffled",
    "arrays_shuffled_in_batches",
    "arrays_in_order",
    "arrays_split",
    "tensors_weighted",
    "generator_of_numpy",
    "generator_of_its_own",
    "generator_until_it_ends",
    "dataset",
    "dataset_that_shuffles",
    "dataset_that_draws",
    "dataset_with_workers",
    "tf_data",
    "tf_data_that_repeats",
    "tf_data_of_unknown_length",
    "loader",
    "loader_with_workers",
    "loader_that_draws",
    "grain_data",
    "image_records",
)
VALIDATIONS = ("none", "arrays", "generator", "dataset", "tf_data", "every_second_epoch")
MODELS = (
    "dense",
    "dropout",
    "batch_normalization",
    "averages",
    "accumulation",
    "bfloat16",
    "loss_scale",
    "several_inputs",
    "own_step",
    "subclassed",
    "unbuilt",
    "augmented",
    "frozen",
    "weighted_metrics",
    "torch_module",
    "lion",
)
NOT_BUILT = ("subclassed", "unbuilt")  # before their first batch
RANDOM_MODELS = ("dropout", "augmented", "subclassed")
CALLBACKS = (
    "early_stopping",
    "plateau",
    "schedule",
    "schedule_with_state",
    "functions",
    "function_that_counts",
    "csv",
    "csv_append",
    "best_model",
    "backup",
    "tensorboard",
    "keeps_lists",
    "averages_weights",
    "anneals",
    "freezes",
    "rate_per_batch",
    "draws_from_numpy",
    "own_generator",
    "terminates",
    "stops_by_hand",
    "evaluates",
)
SCRIPTS = ("one_fit", "two_phases", "folds", "loop_of_fits", "two_optimizers", "several_steps")


@dataclass(frozen=True)
class Draw:
    """One script, and how it is interrupted.

    `stops`: for each run but the last one, the moments until it ends, and whether by a crash or a signal. `devices`: of each run;
    the first is that of the undisturbed run.
    """

    seed: int
    backend: str
    source: str
    validation: str
    model: str
    callbacks: tuple[str, ...]
    script: str
    every: int | str
    stops: tuple[tuple[int, str], ...]
    devices: tuple[int, ...]

    @property
    def bit_for_bit(self) -> bool:
        return len(set(self.devices)) == 1

    @property
    def precision(self) -> str:
        """What Keras computes in. On other devices sums are rounded in another order, which Adam and BatchNormalization enlarge.

        In float32 they do by so much that an error would not be seen; see "The order of sums" in `docs/concepts/contract.md`.
        """
        return "float32" if self.bit_for_bit or self.model == "bfloat16" else "float64"

    @property
    def cell(self) -> str:
        return " / ".join([self.script, self.source, self.validation, self.model, *self.callbacks])


def _trains(backend: str, script: str, model: str, callback: str) -> bool:
    """Whether plain Keras trains a model with a callback."""
    if callback == "freezes":
        # JAX's step, that of two optimizers, and averages keep the variables that they began with. In two phases, none is left.
        own = script not in ("two_optimizers", "two_phases")
        return backend != "jax" and own and model not in ("averages", "accumulation")
    if callback in ("plateau", "schedule", "schedule_with_state"):  # they set the learning rate
        return model != "lion" and (backend != "jax" or script != "two_optimizers")
    return callback != "backup" or model not in NOT_BUILT


def draw(seed: int, backend: str) -> Draw:
    """Every feature is in the campaign about as often as any other of its kind: the seed chooses the source and the model."""
    choice = random.Random(f"{seed} {backend}")
    script = choice.choice(SCRIPTS) if seed % 2 else "one_fit"
    source = SOURCES[seed % len(SOURCES)]
    model = choice.choice(MODELS)
    if backend != "torch" and model == "torch_module":
        model = "dense"
    if backend == "torch" and script == "several_steps":
        script = "one_fit"
    if source == "arrays_split" and model == "torch_module":  # whose last batch has one row, and it normalizes batches
        model = "dense"
    if source == "image_records" and model == "several_inputs":
        model = "batch_normalization"
    if script == "two_optimizers" and (model in NOT_BUILT or model == "several_inputs"):
        model = "dense"
    if (
        backend == "jax" and script == "loop_of_fits" and model == "accumulation"
    ):  # Keras loses a variable in a second fit
        model = "dense"
    changes = model not in RANDOM_MODELS and choice.random() < 0.4
    num_stops = choice.choice((1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 12, 20))
    devices = (
        tuple(choice.choice((1, 2, 3, 4)) for _ in range(num_stops + 2)) if changes else (choice.choice((1, 2, 2, 4)),)
    )
    return Draw(
        seed=seed,
        backend=backend,
        source=source,
        validation="none" if source == "arrays_split" else choice.choice(VALIDATIONS),
        model=model,
        callbacks=tuple(
            each
            for each in sorted(choice.sample(CALLBACKS, choice.choice((0, 1, 2, 3, 4))))
            if _trains(backend, script, model, each)
        ),
        script=script,
        every=choice.choice((1, 2, 3, 4, 5, 7, "epoch")),
        stops=tuple(
            (choice.randint(2, max(6, 90 // num_stops)), choice.choice(("crash", "crash", "signal")))
            for _ in range(num_stops)
        ),
        devices=devices,
    )


def as_line(value: Any) -> Any:
    """A draw as JSON."""
    return {**vars(value), "callbacks": list(value.callbacks), "stops": [list(each) for each in value.stops]}
