"""Losses, metrics and normalization that make n replicas, each with its own rows, compute what one device computes.

For backends that run a model once per replica (TensorFlow, PyTorch). After `install()`, inside `with replica(...)`:

- a loss that works row by row returns this replica's *contribution*: the contributions of all replicas add up to the loss of
  the global batch, for every reduction. A loss that mixes rows, and an unknown loss, gets the rows of all replicas;
- extra losses (`add_loss`, regularizers) are means over rows, weighted by the replica's number of rows;
- BatchNormalization uses the moments of the global batch, unless the placement has `batch_norm="local"`;
- a metric whose state adds up is updated with this replica's rows; every other metric gets the rows of all replicas;
- a layer that a `RowCheck` found to relate rows gets the rows of all replicas.

The package uses private names of Keras; `tests/test_exact.py` fails when Keras changes them. Imports no framework.
"""

from abreast.exact.assignments import is_in_optimizer
from abreast.exact.by_weight import by_weight, handed_on, other_weights
from abreast.exact.calls import is_result, running
from abreast.exact.conditions import announce_conditions, announce_resources
from abreast.exact.containers import contents_of, refill, values_of
from abreast.exact.dry_run import is_dry_run, python_once
from abreast.exact.gathered import gathering
from abreast.exact.install import install
from abreast.exact.kept_apart import KeptApart, leaving_values
from abreast.exact.layers import announce_drawn, announce_random, announcing_draws, diverging_variables, exchange
from abreast.exact.losses import is_of_keras, loss_contribution
from abreast.exact.members import (
    has_metrics_of_calls,
    leaf_metrics,
    left_by_calls,
    name_of,
    of_calls,
    optimizers,
    with_inner,
)
from abreast.exact.metrics import adds_up, metrics, sees_updates, update_metrics
from abreast.exact.overflow import announce_overflow, overflowing_as_half
from abreast.exact.own_step import is_users, overrides_step, state_rule_of_own_step
from abreast.exact.probe import Probe
from abreast.exact.python_changes import (
    BuildChanges,
    ReplicaChanges,
    note_second_trace,
    noting_build,
    tell_of_effects,
    was_changed_by_build,
)
from abreast.exact.python_values import thread_locals
from abreast.exact.refusals import check_layers
from abreast.exact.relations import Relations
from abreast.exact.replica import (
    Replica,
    ReplicaLink,
    check_outputs,
    current,
    first_leaf,
    is_inside,
    is_number,
    other_rows,
    replica,
    unpack,
    working_for,
)
from abreast.exact.row_check import RowCheck, related_rows
from abreast.exact.short_results import ShortResults, announce_unlike, short_results
from abreast.exact.step_logs import map_logs
from abreast.exact.unseen_reads import announce_unseen_reads
from abreast.exact.untracked import adds_up_in_place, announce_python, announce_untracked, untracked
from abreast.exact.users_code import names_in
from abreast.exact.warn_once import warn_once

__all__ = [
    "BuildChanges",
    "KeptApart",
    "Probe",
    "Relations",
    "Replica",
    "ReplicaChanges",
    "ReplicaLink",
    "RowCheck",
    "ShortResults",
    "adds_up",
    "adds_up_in_place",
    "announce_conditions",
    "announce_drawn",
    "announce_overflow",
    "announce_python",
    "announce_random",
    "announce_resources",
    "announce_unlike",
    "announce_unseen_reads",
    "announce_untracked",
    "announcing_draws",
    "by_weight",
    "check_layers",
    "check_outputs",
    "contents_of",
    "current",
    "diverging_variables",
    "exchange",
    "first_leaf",
    "gathering",
    "handed_on",
    "has_metrics_of_calls",
    "install",
    "is_dry_run",
    "is_in_optimizer",
    "is_inside",
    "is_number",
    "is_of_keras",
    "is_result",
    "is_users",
    "leaf_metrics",
    "leaving_values",
    "left_by_calls",
    "loss_contribution",
    "map_logs",
    "metrics",
    "name_of",
    "names_in",
    "note_second_trace",
    "noting_build",
    "of_calls",
    "optimizers",
    "other_rows",
    "other_weights",
    "overflowing_as_half",
    "overrides_step",
    "python_once",
    "refill",
    "related_rows",
    "replica",
    "running",
    "sees_updates",
    "short_results",
    "state_rule_of_own_step",
    "tell_of_effects",
    "thread_locals",
    "unpack",
    "untracked",
    "update_metrics",
    "values_of",
    "warn_once",
    "was_changed_by_build",
    "with_inner",
    "working_for",
]
