"""Whether another process can repeat the draws of a `tf.data` pipeline: not without a seed, or with a generator in a variable.

Imports no framework.
"""

from __future__ import annotations

from typing import Any

from abreast.feed.tf_data import num_begun, pipeline, shuffles, step_name

_REST = "the rest of this epoch is not exactly what would have followed"
_ROWS = "the rest of this epoch has another order: some of its rows were there already, and others never come"
_SEED = "hint: give each shuffle a seed, or call keras.utils.set_random_seed before the data set is made"


def lost(dataset: Any) -> str | None:
    """A message for the user about the order or draws that a restart loses; None if it loses nothing."""
    steps = list(pipeline(dataset))
    if any(not (int(each._seed) or int(each._seed2)) for each in shuffles(dataset)):
        return f"tf.data shuffles without a seed: {_ROWS}\n{_SEED}"
    nodes = [node for step in steps for each in getattr(step, "_functions", list)() for node in _nodes(each)]
    if any("seed" in node.attr and not (node.attr["seed"].i or node.attr["seed2"].i) for node in nodes):
        return (
            f"tf.data draws without a seed: {_REST}\nhint: call keras.utils.set_random_seed before the data set is made"
        )
    if any(node.op in ("RngReadAndSkip", "AssignVariableOp", "AssignAddVariableOp") for node in nodes):
        hint = "draw with tf.random.stateless_uniform or a seed of tf.random.uniform, or augment in layers of the model"
        return f"tf.data draws from a generator that it keeps as a variable: {_REST}\nhint: {hint}"
    return None


def perhaps_lost(dataset: Any) -> str | None:
    """A message about the order that a restart may lose if it is not the first iterator; None if it can lose nothing."""
    steps = [step_name(each) for each in pipeline(dataset)]
    if "ShuffleDataset" not in steps or max(num_begun(dataset)) < 2:
        return None
    before = steps[: len(steps) - 1 - steps[::-1].index("ShuffleDataset")]
    for name, does in (("CacheDataset", "caches"), ("RepeatDataset", "repeats")):
        if name in before:
            return f"tf.data {does} a shuffled data set: {_ROWS}\nhint: shuffle after it"
    return None


def _nodes(function: Any) -> list[Any]:
    graph = function.function.graph.as_graph_def()
    return [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
