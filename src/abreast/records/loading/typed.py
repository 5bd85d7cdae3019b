"""The types of a loader's batches for a type checker: their arrays depend on `targets` and `weights`.

This module has no effect when a program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict

from abreast.records.decoding.gpu_choice import Decoder
from abreast.records.decoding.images import Pixels
from abreast.records.format.columns import Array
from abreast.records.loading.targets import ClassNames
from abreast.records.loading.views import CenterCrop, RandomCrop

Columns = dict[str, Array]

WithTarget = tuple[Pixels, Array]
WithTargets = tuple[Pixels, Columns]
WithTargetAndWeights = tuple[Pixels, Array, Array]
WithTargetsAndWeights = tuple[Pixels, Columns, Array]
WithWeights = tuple[Pixels, None, Array]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Batch = TypeVar("Batch", default=Any)
else:
    from typing import TypeVar

    Batch = TypeVar("Batch")  # a default needs Python 3.13


class Settings(TypedDict, total=False):
    """The settings of a loader that do not change the type of its batches."""

    size: int | tuple[int, int]
    augment: bool | RandomCrop | CenterCrop
    shuffle: bool | None
    seed: int
    drop_remainder: bool
    antialias: bool | None
    smaller: str | PathLike[str] | Sequence[str | PathLike[str]]
    num_threads: int | None
    num_workers: int
    decoder: Decoder
    shard: int
    num_shards: int
    class_names: ClassNames
