"""One host's process of `host_overhead.py`: the training as written by hand, which exchanges gradients as its framework does.

    python benchmarks/host_native.py CELL     (a JSON object; `host_overhead.py` starts it on an emulated host)

It has the protocol of `slow_training.py`. On JAX: a jitted step over a mesh of both processes. On PyTorch:
`DistributedDataParallel` over gloo. On TensorFlow: a `tf.function` whose gradients go through TensorFlow's own collectives.
Each process makes its rows itself, and computes no metrics.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from slow_links import end_with_parent
from slow_training import task_of

Step = Callable[[Any, Any], Any]  # of this process's rows; returns after the step is done

_SIZE, _RANK = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
_ADDRESS = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"


def main() -> None:
    end_with_parent()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # gloo prints there
    join = {"jax": _join_jax, "tensorflow": _join_tensorflow, "torch": _join_torch}[keras.backend.backend()]
    step_of = join()
    task = task_of(json.loads(sys.argv[1])["model"], _SIZE)
    model = task.build()
    optimizer = keras.optimizers.SGD(0.001, momentum=0.9)
    optimizer.build(model.trainable_variables)
    step = step_of(model, optimizer, task.loss())
    print(
        json.dumps({"tensor_sizes": [int(np.prod(weight.shape)) for weight in model.trainable_weights]}), file=answers
    )
    x, y = (each[_RANK::_SIZE] for each in task.rows(task.batch_size))
    for line in sys.stdin:
        _, dropped, timed = (int(word) for word in line.split())
        times = [_begun(step, x, y) for _ in range(dropped + timed + 1)]
        print(json.dumps(np.diff(times)[dropped:].tolist()), file=answers)


def _begun(step: Step, x: Any, y: Any) -> float:
    """Make a step; return the moment of its begin."""
    begin = time.perf_counter()
    step(x, y)
    return begin


def _join_jax() -> Callable[..., Step]:
    import jax
    from jax._src import xla_bridge
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from abreast.launchers.route import own_address_towards

    core: Any = vars(xla_bridge)["_jax"]
    connect, own = core.make_gloo_tcp_collectives, own_address_towards(os.environ["MASTER_ADDR"])
    core.make_gloo_tcp_collectives = lambda **options: connect(**{**options, "hostname": own})
    jax.distributed.initialize(_ADDRESS, _SIZE, _RANK)

    def step_of(model: Any, optimizer: Any, loss: Any) -> Step:
        mesh = Mesh(np.array(jax.devices()), ("batch",))
        rows, whole = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())
        groups = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
        state = jax.device_put([[np.asarray(variable.value) for variable in group] for group in groups], whole)

        def loss_of(trainable: Any, others: Any, x: Any, y: Any) -> Any:
            predicted, others = model.stateless_call(trainable, others, x, training=True)
            return loss(y, predicted), others

        @jax.jit
        def next_state(state: Any, x: Any, y: Any) -> Any:
            trainable, others, slots = state
            (_, others), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable, others, x, y)
            trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
            return trainable, others, slots

        def step(*batch: Any) -> None:
            nonlocal state
            state = next_state(state, *(jax.make_array_from_process_local_data(rows, each) for each in batch))
            jax.block_until_ready(state)

        return step

    return step_of


def _join_torch() -> Callable[..., Step]:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    os.environ["GLOO_SOCKET_IFNAME"] = "slow0"
    torch.distributed.init_process_group("gloo", init_method=f"tcp://{_ADDRESS}", rank=_RANK, world_size=_SIZE)

    def step_of(model: Any, optimizer: Any, loss: Any) -> Step:
        parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
        weights = model.trainable_weights

        def step(*batch: Any) -> None:
            x, y = (torch.from_numpy(np.ascontiguousarray(each)) for each in batch)
            model.zero_grad()
            loss(y, parallel(x, training=True)).backward()
            with torch.no_grad():
                optimizer.apply([weight.value.grad for weight in weights], weights)

        return step

    return step_of


def _join_tensorflow() -> Callable[..., Step]:
    """Its server listens on all addresses of the host, and anyone may run anything there: the hosts are emulated ones."""
    import tensorflow as tf
    from slow_links import ADDRESSES
    from tensorflow.core.protobuf import cluster_pb2, tensorflow_server_pb2
    from tensorflow.python.eager import context

    cluster = cluster_pb2.ClusterDef()
    worker = cluster.job.add(name="worker")
    for rank, address in enumerate(ADDRESSES):
        worker.tasks[rank] = f"{address}:{int(os.environ['MASTER_PORT']) - rank}"
    here = context.context()
    here.configure_collective_ops(
        collective_leader="/job:worker/replica:0/task:0", device_filters=(f"/job:worker/task:{_RANK}",)
    )
    here.enable_collective_ops(
        tensorflow_server_pb2.ServerDef(
            cluster=cluster,
            default_session_config=here.config,
            job_name="worker",
            task_index=_RANK,
            protocol="grpc",
        )
    )

    def summed(gradients: Any) -> list[Any]:
        """In one message: many small ones took longer."""
        flat = tf.concat([tf.reshape(each, [-1]) for each in gradients], 0)
        total = tf.raw_ops.CollectiveReduceV2(
            input=flat, group_size=_SIZE, group_key=1, instance_key=1, ordering_token=[], merge_op="Add",
            final_op="Id", communication_hint="ring",
        )  # fmt: skip
        parts = tf.split(total, [int(np.prod(each.shape)) for each in gradients])
        return [tf.reshape(part, each.shape) for part, each in zip(parts, gradients, strict=True)]

    def step_of(model: Any, optimizer: Any, loss: Any) -> Step:
        @tf.function  # type: ignore[untyped-decorator]
        def apply(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                value = loss(y, model(x, training=True)) / _SIZE
            gradients = tape.gradient(value, model.trainable_variables)
            optimizer.apply(summed(gradients), model.trainable_variables)
            return value

        return lambda x, y: apply(tf.constant(x), tf.constant(y)).numpy()

    return step_of


if __name__ == "__main__":
    main()
