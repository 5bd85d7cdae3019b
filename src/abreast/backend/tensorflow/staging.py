"""Cuts a batch into one shard per device and copies the shards there, for `Backend.stage`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from abreast.arrays import arrays_of, map_arrays
from abreast.backend.contract import Placement
from abreast.backend.tensorflow.devices import tf_names
from abreast.backend.tensorflow.step import StagedBatch
from abreast.feed import HostBatch
from abreast.shares import Shares, shares_of


def put_shards(batch: HostBatch, placement: Placement, first: int = 0) -> StagedBatch:
    """A batch on its way to this process's devices, one shard on each; `first` is their first index among all devices."""
    shares = shares_of(batch.rows, placement.num_devices)
    own = range(first, first + len(tf_names(placement.devices)))
    if batch.held is None:
        parts = [_cut(leaf, shares, own) for leaf in arrays_of(batch.data)]
        shards = [[part[index] for part in parts] for index in range(len(own))]
    else:
        cut = (batch.rows_at(shares.slices[i]) if shares.counts[i] else batch.first_rows(1) for i in own)
        shards = [arrays_of(data) for data in cut]
    return _put(batch, placement, shards, shares.counts)


def put_own_shards(batch: HostBatch, placement: Placement) -> StagedBatch:
    """A batch of this process's own rows on its devices. The row counts of the other processes are not known yet."""
    return _put(batch, placement, [arrays_of(data) for data in batch.cut(len(tf_names(placement.devices)))], ())


def _put(batch: HostBatch, placement: Placement, shards: list[list[Any]], counts: tuple[int, ...]) -> StagedBatch:
    on_devices = []
    for shard, device in zip(shards, tf_names(placement.devices), strict=True):
        with tf.device(device):
            on_devices.append([to_device(leaf) for leaf in shard])
    return StagedBatch(map_arrays(lambda _: 0, batch.data), on_devices, counts)


def _cut(leaf: Any, shares: Shares, own: range) -> list[Any]:
    """One shard for each of this process's devices."""
    if shares.num_devices == 1:
        return [leaf]
    if not tf.is_tensor(leaf):
        return [leaf[shares.slices[device]] for device in own]
    counts = [shares.counts[device] for device in own]
    start = sum(shares.counts[: own.start])
    with tf.device("/CPU:0"):  # else the whole batch would go to the first GPU
        rows = leaf if sum(counts) == shares.rows else leaf[start : start + sum(counts)]
        parts = tf.raw_ops.SplitV(value=rows, size_splits=tf.constant(counts), axis=0, num_split=len(counts))
        return [part if count else leaf[:1] for part, count in zip(parts, counts, strict=True)]


def to_device(part: Any) -> Any:
    return tf.identity(part) if tf.is_tensor(part) else tf.convert_to_tensor(part)
