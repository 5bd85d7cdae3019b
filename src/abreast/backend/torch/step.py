"""One rank's part of a step: forward, backward and update of its replica, together with the other ranks.

The same code runs in the caller's process (rank 0) and in the workers. Not here: cutting and sending batches (`backend.py`,
`team.py`, `worker.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import keras
import numpy as np
import torch
from keras import tree
from torch._dynamo.eval_frame import OptimizedModule

from abreast import exact, users_line
from abreast.arrays import map_arrays
from abreast.backend.torch import batch_norm, keras_ddp, own_optimizers
from abreast.backend.torch.buffers import Buffers
from abreast.backend.torch.devices import here
from abreast.backend.torch.held_gradients import HeldGradients
from abreast.backend.torch.link import END_OF_STEP, TorchLink, keep_out_of_graphs
from abreast.backend.torch.probe import TorchProbe
from abreast.backend.torch.seeds import NotedDraws
from abreast.backend.torch.staging import begin_copy
from abreast.backend.torch.sums import Gradients, State
from abreast.keras_private.optimizers import LossScaleOptimizer
from abreast.keras_private.torch import get_device


class ReplicaStep:
    """Steps of one model replica. Every rank calls the same methods in the same order, each with its own shard."""

    def __init__(self, model: Any, link: TorchLink, global_batch_norm: bool) -> None:
        exact.install()
        batch_norm.install()
        keras_ddp.install()
        own_optimizers.install()
        self.model = model
        self.link = link
        self.global_batch_norm = global_batch_norm
        self.forward = _Forward(model)
        self._gradients = Gradients(model, link, self.forward)
        self.buffers = Buffers(model, global_batch_norm)
        self._state = State(model, link, self.buffers)
        self._held = HeldGradients(model, link)
        self._optimizer = getattr(model, "optimizer", None)
        self.accumulates = False  # whether the last step has left gradients for a later one
        self._is_noted = link.num_replicas == 1  # whether the draws of a step were announced
        self._counts: tuple[Sequence[int], torch.Tensor] | None = None
        self.relations: exact.Relations | None = None
        self.compares = False  # whether the ranks compare what they exchange in the next step
        self._metrics_are_last: bool | None = None

    def train(self, shard: Any, counts: Sequence[int]) -> Any:
        """Run one optimizer step; return the logs of a user's own `train_step` or `compute_metrics`, else None."""
        shard = self._writable(shard)
        noting = nullcontext() if self._is_noted else self._announcing_draws()
        self._is_noted = True
        running = self._replica(counts, exact.overrides_step(self.model, "train"))
        gathering = exact.gathering(self.model, running.relations)
        with noting, exact.replica(running), exact.metrics(self.model) as metrics, gathering:
            if running.own_step:
                with self._state.update(metrics), self._held.step(running, counts):
                    return _shared_logs(running, self._own(self.model.train_step, shard))
            try:
                return self._train(running, metrics, shard)
            except BaseException:
                self._gradients.end_overlap()
                raise

    @contextmanager
    def _announcing_draws(self) -> Iterator[None]:
        noting = exact.announcing_draws(self.model)
        with noting as found, nullcontext() if self.forward.is_compiled else NotedDraws(found):
            yield

    def test(self, shard: Any, counts: Sequence[int]) -> Any:
        shard = self._writable(shard)
        running = self._replica(counts, exact.overrides_step(self.model, "test"), "test")
        gathering = exact.gathering(self.model, running.relations)
        with torch.no_grad(), exact.replica(running), exact.metrics(self.model) as metrics, gathering:
            if running.own_step:
                with self._state.update(metrics):
                    return _shared_logs(running, self._own(self.model.test_step, shard))
            x, y, weight = _unpacked(shard)
            with self._state.update(metrics):
                y_pred = self.forward(x, training=False)
                contribution = exact.loss_contribution(running, x, y, y_pred, weight, training=False)
                return self._logs(running, contribution, (x, y, y_pred, weight))

    def _writable(self, shard: Any) -> Any:
        """The rows, copied if the model writes into them: they may be views of the user's arrays."""
        return _copied(shard) if self.relations is not None and self.relations.writes_rows else shard

    def _own(self, step: Callable[[Any], Any], shard: Any) -> Any:
        logs = step(shard)
        self.link.agree(END_OF_STEP)
        return logs

    @contextmanager
    def _counting_rows_of_all(self) -> Iterator[None]:
        with exact.metrics(self.model) as metrics, self._state.update(metrics):
            yield

    def predict(self, shard: Any, counts: Sequence[int]) -> Any:
        """The outputs for the rows of all ranks, on every rank.

        A launched rank's script needs them. Workers drop them: gathering on rank 0 alone would take as long, because rank 0
        receives the same rows.
        """
        shard = self._writable(shard)
        running = self._replica(counts, own_step=True, kind="predict")
        with torch.no_grad(), exact.replica(running), exact.gathering(self.model, running.relations):
            with self._counting_rows_of_all() if exact.has_metrics_of_calls(self.model) else nullcontext():
                outputs = self.model.predict_step(shard)
            if len(counts) > 1:
                exact.check_outputs(outputs, shard)
            outputs = tree.map_structure(lambda leaf: leaf[: running.rows], outputs)
            return tree.map_structure(lambda leaf: self.link.gather_rows(leaf, counts), outputs)

    def short_results(self, kind: str, rows: Any) -> exact.ShortResults:
        """This rank's weights and results for `rows`, which all ranks get alike, to compare them."""
        probe = TorchProbe(self.model, here().startswith("gpu"), kind == "train" and exact.overrides_step(self.model))
        return exact.short_results(self.model, kind, _copied(begin_copy(rows, here()).ready()), probe)

    @property
    def holds_gradients(self) -> bool:
        """Whether ranks have gradients of their own rows, for a later step."""
        return self.accumulates or self._held.is_open

    def collect_gradients(self) -> None:
        """Sum the gradients that the ranks hold. Those of Keras's accumulation steps move to Keras's accumulators."""
        self._held.collect()
        if not self.accumulates:
            return
        self.accumulates = False  # whether the last step has left gradients for a later one
        optimizer: Any = self._optimizer
        scale = getattr(optimizer, "loss_scale_factor", None) or 1.0
        with torch.no_grad():
            for weight, total in zip(self._gradients.weights, self._gradients.sum_kept(), strict=True):
                if total is not None:
                    optimizer._accumulated_gradients[optimizer._get_variable_index(weight)].value.add_(total / scale)

    def _replica(self, counts: Sequence[int], own_step: bool, kind: str = "train") -> exact.Replica:
        if self._counts is None or self._counts[0] != counts:  # kept, because a copy to a GPU waits for the GPU
            self._counts = counts, torch.as_tensor(counts, device=get_device())
        relations = None if self.relations is None else self.relations.for_rows(counts)
        running = exact.Replica(
            self.model,
            self.link,
            rows=counts[self.link.index],
            total_rows=sum(counts),
            counts=self._counts[1],
            global_batch_norm=self.global_batch_norm,
            own_step=own_step,
            kind=kind,
            relations=relations,
        )
        self.link.may_part = self.compares or running.depends_on_values
        return running

    def _train(self, running: exact.Replica, metrics: list[Any], shard: Any) -> Any:
        model, gradients = self.model, self._gradients
        if running.depends_on_values:
            gradients.end_overlap()
            self.collect_gradients()
        updates = self._updates_now(running)
        x, y, weight = _unpacked(shard)
        self._state.begin(metrics)
        with nullcontext() if updates else gradients.kept_apart():
            y_pred = gradients.forward(x, training=True)
            if not self.accumulates:
                model.zero_grad()
            contribution = exact.loss_contribution(running, x, y, y_pred, weight, training=True)
            if self._metrics_are_last is None:
                self._metrics_are_last = exact.sees_updates(model)
            is_last = self._metrics_are_last
            seen = x, y, _detached(y_pred), _copied(weight)
            self.link.agree(END_OF_STEP)  # backward repeats the exchanges of forward
            logs = None if is_last else self._logs(running, contribution, seen)
            if gradients.overlaps and not is_last:
                self._state.start()  # runs beside the sums of backward, and is waited for after it
            target = contribution if model.optimizer is None else model.optimizer.scale_loss(contribution)
            if gradients.weights:
                gradients.backward(target, accumulates=self.accumulates or not updates)
        if not updates and not gradients.is_known:
            gradients.own()
        if not is_last:
            in_message = gradients.is_small and gradients.weights and updates
            if not gradients.overlaps:
                self._state.start(gradients.own() if in_message else ())
            self._state.finish()
        if gradients.weights:
            if updates:
                gradients.finish(are_sums=gradients.is_small and not is_last)
            self._apply(gradients.weights, updates)
            if updates and not running.depends_on_values:
                gradients.begin_overlap()
        else:
            users_line.warn("The model does not have any trainable weights.")
        if is_last:  # as in Keras's step
            logs = self._logs(running, contribution, seen)
            self._state.start()
            self._state.finish()
        return logs

    @torch.no_grad()
    def _logs(self, running: exact.Replica, contribution: torch.Tensor, seen: Any) -> Any:
        """Update the metrics; return the logs of a user's own `compute_metrics`, else None."""
        logs = _shared_logs(running, exact.update_metrics(running, contribution.detach(), *seen))
        self.link.agree(END_OF_STEP)
        return logs

    def _updates_now(self, running: exact.Replica) -> bool:
        """Whether this step changes the weights. With gradient accumulation, most steps do not, and exchange nothing.

        If rows choose the weights, Keras's optimizer accumulates the sums of each step, of the weights that the step uses.
        """
        optimizer = self.model.optimizer
        steps = getattr(optimizer, "gradient_accumulation_steps", None)
        if not steps or isinstance(optimizer, LossScaleOptimizer) or running.depends_on_values:
            return True
        return bool((int(optimizer._iterations) + 1) % steps == 0)

    def _apply(self, weights: list[Any], updates: bool) -> None:
        gradients = [weight._value.grad for weight in weights]
        self.accumulates = not updates
        with torch.no_grad():
            if not updates:
                # Zeros of the same shape that take no memory.
                gradients = [None if each is None else each.new_zeros(()).expand_as(each) for each in gradients]
            elif self.link.num_replicas > 1:
                gradients = exact.overflowing_as_half(self.model, self.model.optimizer, gradients, weights)
            self.model.optimizer.apply(gradients, weights)


class _Forward(torch.nn.Module):
    """The model's call as a module that DDP can wrap, compiled where the user asked for it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.takes_training = model._call_has_training_arg
        modules = (module for layer in model._flatten_layers() for module in layer.modules())
        self.is_compiled = model.jit_compile or any(isinstance(module, OptimizedModule) for module in modules)
        if self.is_compiled:
            keep_out_of_graphs()
            batch_norm.allow_tracing()
        self.call = torch.compile(model) if model.jit_compile else model

    def forward(self, x: Any, training: bool) -> Any:
        return self.call(x, training=training) if self.takes_training else self.call(x)


def _unpacked(shard: Any) -> Any:
    x, y, weight = exact.unpack(shard)
    return (
        x,
        y,
        _copied(weight),
    )  # Keras multiplies a mask into them in place: the source and backward need the original


def _copied(data: Any) -> Any:
    return map_arrays(lambda leaf: leaf.clone(), data)


def _detached(data: Any) -> Any:
    def detach(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        detached = leaf.detach()
        mask = getattr(leaf, "_keras_mask", None)
        if mask is not None:
            detached._keras_mask = mask  # type: ignore[attr-defined]
        return detached

    return tree.map_structure(detach, data)


def _shared_logs(running: exact.Replica, logs: Any) -> Any:
    """The logs of a user's own step or `compute_metrics`, with each number averaged, or summed, over the rows of all ranks."""

    def total(name: str, value: Any) -> Any:
        if isinstance(value, bool) or not (exact.is_number(value) or name in running.logs):
            return value
        factor = running.share_of_log(name)
        value = value.value if isinstance(value, keras.Variable) else value  # such as the state of a metric
        is_tensor = isinstance(value, torch.Tensor)
        number = value.detach() if is_tensor else torch.as_tensor(value, dtype=torch.float64, device=get_device())
        share = number.to(_type_of_sum(number))
        summed = running.link.all_sum(share * factor if running.rows else torch.zeros_like(share))
        summed = summed if number.is_floating_point() else summed.round().to(number.dtype)
        if isinstance(value, np.ndarray):
            return summed.numpy(force=True).astype(value.dtype)
        return summed if is_tensor else type(value)(summed.item())

    return exact.map_logs(total, logs)


def _type_of_sum(number: torch.Tensor) -> torch.dtype:
    return number.dtype if number.is_floating_point() else torch.float64
