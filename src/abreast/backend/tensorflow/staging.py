"""A batch is cut into one shard per device and copied there, for `Backend.stage`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from keras import tree

from abreast.backend.contract import Placement
from abreast.backend.tensorflow.devices import tf_names
from abreast.backend.tensorflow.step import StagedBatch
from abreast.feed import HostBatch
from abreast.shares import Shares, shares_of


def put_shards(batch: HostBatch, placement: Placement) -> StagedBatch:
    """A batch on its way to the devices, one shard on each."""
    shares = shares_of(batch.rows, placement.num_devices)
    leaves = [leaf for leaf in tree.flatten(batch.data) if leaf is not None]
    parts = [_cut(leaf, shares) for leaf in leaves]
    shards = []
    for index, device in enumerate(tf_names(placement.devices)):
        with tf.device(device):
            shards.append([to_device(part[index]) for part in parts])
    return StagedBatch(tree.map_structure(lambda leaf: None if leaf is None else 0, batch.data), shards, shares.counts)


def _cut(leaf: Any, shares: Shares) -> list[Any]:
    """One shard per device."""
    counts = shares.counts
    if len(counts) == 1:
        return [leaf]
    if not tf.is_tensor(leaf):
        return [leaf[rows] for rows in shares.slices]
    with tf.device("/CPU:0"):  # else the whole batch would go to the first GPU
        parts = tf.raw_ops.SplitV(value=leaf, size_splits=tf.constant(counts), axis=0, num_split=len(counts))
        return [part if count else leaf[:1] for part, count in zip(parts, counts, strict=True)]


def to_device(part: Any) -> Any:
    return tf.identity(part) if tf.is_tensor(part) else tf.convert_to_tensor(part)
