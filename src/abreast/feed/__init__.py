"""Any Keras data source as global batches, read ahead of the step and staged on the devices.

`batch.py` holds one batch and its shards, `telling_rows.py` chooses rows of it for the row check, `source.py` holds the user's
data source, `ahead.py` a thread that works ahead, `pipeline.py` the path of a batch from its source to the devices, `pace.py`
whether threads work beside short steps, and `adapter.py` the adapter that Keras sees. `habits.py` decides whether a source is
read ahead, with `in_process.py`, `between_steps.py`, `shared_random.py`, `shared_state.py`, `held_by_source.py`, `reach.py`
and `turns.py`. `workers.py` ends a source's workers. `parts.py` reads only a process's own rows; `by_index.py` does so for
sources whose rows depend on their index alone, with `torch_loader.py` and `grain_batches.py`. `jump.py` begins a source after
some batches, with `hollow.py` and `tf_order.py`; `source_state.py` saves the changes of its objects, `fingerprint.py`
describes the source, and `form.py` the types and shapes of its batches. `validation_split.py` cuts off the rows for
validation. Imports no framework: a backend puts batches on devices.
"""

from abreast.feed.adapter import DoneStep, Feed, FeedIterator, Handed, take
from abreast.feed.batch import HostBatch, not_numbers
from abreast.feed.between_steps import BetweenSteps
from abreast.feed.by_index import own_reading
from abreast.feed.pace import pace_of
from abreast.feed.parts import Part, ReadsParts, array_digest, array_parts
from abreast.feed.pipeline import Taken
from abreast.feed.source import ENDED_EARLY, Source
from abreast.feed.tf_data import begin, dataset_views, not_dense
from abreast.feed.turns import wait_for_turn
from abreast.feed.validation_split import cut_validation

__all__ = [
    "ENDED_EARLY",
    "BetweenSteps",
    "DoneStep",
    "Feed",
    "FeedIterator",
    "Handed",
    "HostBatch",
    "Part",
    "ReadsParts",
    "Source",
    "Taken",
    "array_digest",
    "array_parts",
    "begin",
    "cut_validation",
    "dataset_views",
    "not_dense",
    "not_numbers",
    "own_reading",
    "pace_of",
    "take",
    "wait_for_turn",
]
