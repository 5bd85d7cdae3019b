"""Ways to break abreast on purpose, so that the contract tests are seen to notice. Run in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.contract.cases import Case, Results, run


def run_with_other_data(case: Case) -> Results:
    """Plain Keras on one row fewer."""
    return run(replace(case, rows=case.rows - 1))


def exit_now() -> None:
    import os

    os._exit(3)


def sleep(seconds: float) -> None:
    import time

    time.sleep(seconds)


def loaded_modules() -> Any:
    import sys

    return sorted(sys.modules)


def without_all_reduce(case: Case, devices: int) -> Results:
    """The job in which the caller's replica learns from its own rows only, as without a sum of gradients."""
    import keras

    cut = {"jax": _cut_in_jax, "tensorflow": _cut_in_tensorflow, "torch": _cut_in_torch}
    with cut[keras.backend.backend()]():
        return run(case, devices=devices)


def counting_stand_ins(case: Case, devices: int) -> Results:
    """The job where rows that only fill up a shard count like the others, as if the row counts were lost."""
    from abreast.backend import current_backend

    backend: Any = current_backend()
    plain = backend.put

    def put(batch: Any, placement: Any) -> Any:
        staged = plain(batch, placement)
        if backend.name == "jax":
            return replace(staged, rows=staged.padded_rows)
        return replace(staged, counts=tuple(max(1, count) for count in staged.counts))

    backend.put = put
    try:
        return run(case, devices=devices)
    finally:
        del backend.put


@contextmanager
def _cut_in_jax() -> Iterator[None]:
    """On JAX, XLA inserts the all-reduce. Without it, a device would learn what its own shard teaches."""
    from abreast.backend.jax.backend import BACKEND
    from abreast.feed import HostBatch
    from abreast.shares import shares_of

    backend: Any = BACKEND
    plain = backend.put

    def put(batch: Any, placement: Any) -> Any:
        return plain(HostBatch.of(batch.rows_at(shares_of(batch.rows, placement.num_devices).slices[0])), placement)

    backend.put = put
    try:
        yield
    finally:
        del backend.put


@contextmanager
def _cut_in_tensorflow() -> Iterator[None]:
    from abreast.backend.tensorflow.reduce import Reducer

    with _replaced(Reducer, "sum_gradients", lambda self, values: [list(row) for row in values]):
        yield


@contextmanager
def _cut_in_torch() -> Iterator[None]:
    """Rank 0 takes part in every exchange, so that the others do not wait, and keeps its own gradients."""
    import torch.distributed as dist

    from abreast.backend.torch import sums

    plain_start, plain_sum = sums.State.start, sums.Gradients._sum

    def start(self: Any, gradients: Any = ()) -> None:
        plain_start(self, [gradient.clone() for gradient in gradients])

    def sum_apart(self: Any, gradients: Any) -> None:
        plain_sum(self, [gradient.clone() for gradient in gradients])

    def sum_bucket(group: Any, bucket: Any, begun_ns: Any) -> Any:
        work = dist.all_reduce(bucket.buffer().clone(), group=group, async_op=True)
        return work.get_future().then(lambda _: bucket.buffer())

    with (
        _replaced(sums.State, "start", start),
        _replaced(sums.Gradients, "_sum", sum_apart),
        _replaced(sums, "_sum_bucket", sum_bucket),
    ):
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    plain = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, plain)


def cut_exchange(name: str, case: Case, devices: int) -> Results:
    """The job without one exchange between replicas: see `EXCHANGES`."""
    with _EXCHANGES[name]():
        return run(case, devices=devices)


@contextmanager
def _own_moments() -> Iterator[None]:
    """Replica 0 takes part in the exchange of BatchNormalization's moments and then normalizes by its own."""
    import keras

    from abreast.exact import layers
    from abreast.exact.dry_run import is_dry_run

    def moments(layer: Any, inputs: Any, mask: Any) -> Any:
        together = layers.moments(layer, inputs, mask)  # in the look at the first batch too, which else would notice
        return together if is_dry_run() else layers._plain_moments(layer, inputs, mask)

    with _replaced(keras.layers.BatchNormalization, "_moments", moments):
        yield


@contextmanager
def _own_divisor() -> Iterator[None]:
    """Replica 0 divides a weighted mean by its own weights alone, times the number of replicas."""
    from abreast.backend import current_backend

    if current_backend().name == "tensorflow":
        from abreast.backend.tensorflow.turns import TurnLink as Link
    else:
        from abreast.backend.torch.link import TorchLink as Link  # type: ignore[assignment]
    plain = Link.all_sum

    def all_sum(self: Any, tensor: Any) -> Any:
        together = plain(self, tensor)
        return together if len(tensor.shape) else tensor * self.num_replicas

    with _replaced(Link, "all_sum", all_sum):
        yield


@contextmanager
def _own_metrics() -> Iterator[None]:
    """The caller's metrics keep the sums of its own rows."""
    from abreast.backend import current_backend

    if current_backend().name == "tensorflow":
        from abreast.backend.tensorflow.variables import Variables

        with _replaced(Variables, "_put_together", lambda self: None):
            yield
    else:
        with _kept_by_rank_0(lambda state: state._tensors):
            yield


@contextmanager
def _own_state() -> Iterator[None]:
    """The caller's copy of a state keeps the mean over its own rows."""
    from abreast import exact
    from abreast.backend import current_backend

    if current_backend().name == "tensorflow":
        with _replaced(exact, "diverging_variables", lambda *_: []):
            yield
        return

    def averaged(state: Any) -> list[Any]:
        running: Any = exact.current()
        return [variable.value for variable in exact.diverging_variables([running])]

    with _kept_by_rank_0(averaged):
        yield


@contextmanager
def _kept_by_rank_0(tensors: Any) -> Iterator[None]:
    """On PyTorch, rank 0 takes part in the sum, and then restores its own values of some tensors."""
    from abreast.backend.torch import sums

    plain_start, plain_finish = sums.State.start, sums.State.finish

    def start(self: Any, gradients: Any = ()) -> None:
        self._own = [(tensor, tensor.detach().clone()) for tensor in tensors(self)]
        plain_start(self, gradients)

    def finish(self: Any) -> None:
        plain_finish(self)
        for tensor, own in self._own:
            tensor.copy_(own)

    with _replaced(sums.State, "start", start), _replaced(sums.State, "finish", finish):
        yield


@contextmanager
def _without_xla() -> Iterator[None]:
    """JAX's program without the all-reduces of XLA: each device runs the step on its shard alone."""
    import jax
    from jax.sharding import PartitionSpec

    from abreast.backend.jax import devices
    from abreast.backend.jax import step as jax_step

    def program(kind: Any, model: Any, placement: Any) -> Any:
        step = getattr(model, f"{kind}_step")

        def of_one_device(state: Any, data: Any) -> Any:
            outputs, new_state = step(state, data)
            return outputs, tuple(map(list, new_state))

        mesh = devices._mesh(placement.devices)
        specs: Any = {"in_specs": (PartitionSpec(), PartitionSpec("batch")), "out_specs": PartitionSpec()}
        alone = jax.jit(jax.shard_map(of_one_device, mesh=mesh, check_vma=False, **specs))
        return lambda state, data, rows: alone(state, data)

    with _replaced(jax_step, "_program", program):
        yield


_EXCHANGES = {
    "moments of BatchNormalization": _own_moments,
    "divisor of weighted means": _own_divisor,
    "sums of metrics": _own_metrics,
    "averages of states": _own_state,
    "all-reduces of XLA": _without_xla,
}


def global_instead_of_local(devices: int, rows: int) -> Any:
    """`probes.local_batch_norm` on JAX, with a program that normalizes by the global batch."""
    from contextlib import nullcontext

    from abreast.backend.jax import step as jax_step
    from tests.contract import probes

    with _replaced(jax_step, "local_batch_norm", lambda num_devices: nullcontext()):
        return probes.local_batch_norm(devices=devices, rows=rows)
