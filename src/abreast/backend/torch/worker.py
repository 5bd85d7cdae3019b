"""The program of a PyTorch worker process: one per device after the first, each with a replica of the caller's model.

The first device belongs to the caller's own process (`team.py`), which sends the workers their commands. torch and Keras are
imported late, because the parent already waits for this process.
"""

from __future__ import annotations

import gc
import json
import os
from typing import Any

from abreast import stderr, workers
from abreast.backend.torch.channel import Channel, ChannelClosed, Message
from abreast.backend.torch.shards import SharedMemoryReader


def main(worker: workers.Worker) -> None:
    options = json.loads(worker.argument)
    os.environ["KERAS_BACKEND"] = "torch"
    import torch

    stderr.leave_to_rank_0()  # it warns of the same
    torch.set_num_threads(options["threads"])
    if options["device"].startswith("gpu:"):
        torch.cuda.set_device(int(options["device"].removeprefix("gpu:")))
    _Replicas(worker, Channel.from_fd(worker.fds[0]), options).serve()


class _Replicas:
    """The models of this worker, by the key that rank 0 gave them."""

    def __init__(self, worker: workers.Worker, channel: Channel, options: dict[str, Any]) -> None:
        # Importing these takes seconds, and needs the environment that `main` has set.
        from abreast.backend.torch import (
            all_reduce,
            groups,
            imported_classes,
            link,
            messages,
            python_changes,
            seeds,
            settings,
            staging,
        )
        from abreast.backend.torch import step as torch_step

        self.worker, self.channel, self.options = worker, channel, options
        self.messages, self.state, self.step, self.stage = messages, python_changes, torch_step, staging
        self.all_reduce, self.settings, self.seeds, self.link = all_reduce, settings, seeds, link
        self.imported_classes = imported_classes
        self.reader = SharedMemoryReader(staging.pin_slot)
        self.staged: dict[bytes, Any] = {}
        self.steps: dict[int, Any] = {}
        channel.send(messages.READY)
        if options["span"] is None:
            self.groups: Any = groups.Groups(
                worker.rank, options["size"], options["rendezvous"], options["team"], options["backend"]
            )
        else:
            span = groups.Span(**{**options["span"], "counts": tuple(options["span"]["counts"])})
            self.groups = groups.SpanGroups(span.first + worker.rank, span, options["team"], options["backend"])
        gc.freeze()  # imported objects stay for ever; later collections examine only models

    def serve(self) -> None:
        """Run rank 0's commands until it closes the channel."""
        while True:
            self.worker.set_phase(workers.IDLE)
            try:
                message = self.channel.receive()
            except ChannelClosed:
                return
            if not self.reader.accept(message):
                self.worker.set_phase(workers.COMPUTING)
                self._handle(message)

    def _handle(self, message: Message) -> None:
        if message.kind in self.messages.KINDS.values():
            self._run(message)
        elif message.kind == self.messages.GROUP:
            with self.worker.phase(workers.COMMUNICATING):
                self.groups.open(message.object())
        elif message.kind == self.messages.MODEL:
            self._adopt(*message.object())
        elif message.kind == self.messages.CLASSES:
            self.channel.send_object(message.kind, self.imported_classes.take_over(message.object()))
        elif message.kind == self.messages.SYNC:
            key, *indices = message.object()
            step = self.steps[key]
            everything = [v.value for v in self.messages.numbered_variables(step.model)], step.buffers.tensors()
            chosen = [tensors[index] for tensors, some in zip(everything, indices, strict=True) for index in some]
            with self.worker.phase(workers.COMMUNICATING):
                self.groups.give(chosen, step.link.num_replicas)
        elif message.kind == self.messages.STATE:
            key, changes = message.object()
            self.state.apply_changes(self.steps[key].model, changes)
        elif message.kind == self.messages.STAGE:
            self.staged[message.payload] = self._begin_copy(message.payload)
        elif message.kind == self.messages.DISCARD:
            self.staged.pop(message.payload).wait()
            self.reader.release(message.payload)
        elif message.kind == self.messages.SUM:
            size, size_bytes = message.object()
            with self.worker.phase(workers.COMMUNICATING):
                self.all_reduce.seconds(self.groups.link(size).group, size_bytes)
        elif message.kind == self.messages.RESULTS:
            key, kind, rows = message.object()
            self.channel.send_object(message.kind, self.steps[key].short_results(kind, rows))
        elif message.kind == self.messages.RELATIONS:
            key, relations = message.object()
            self.steps[key].relations = relations
        elif message.kind == self.messages.SETTINGS:
            self.settings.write(message.object())
        elif message.kind == self.messages.SEED:
            self.seeds.seed_rank(message.object(), self.groups.rank)
        elif message.kind == self.messages.GENERATORS:
            if (state := message.object()) is not None:
                state.put_back()
            else:
                self.channel.send_object(message.kind, self.seeds.Generators.read())
        elif message.kind == self.messages.COLLECT:
            self.steps[message.object()].collect_gradients()
        elif message.kind == self.messages.FORGET:
            self.steps.pop(message.object(), None)
            gc.collect()  # a model refers to itself

    def _adopt(self, key: int, size: int, data: bytes, global_batch_norm: bool, seed: int) -> None:
        model = self.state.load_with_modules(data)
        self.seeds.seed_rank(seed, self.groups.rank)
        link = self.groups.link(size)
        link.waiting = lambda: self.worker.phase(workers.COMMUNICATING)
        self.steps[key] = self.step.ReplicaStep(model, link, global_batch_norm)

    def _run(self, message: Message) -> None:
        key, training, compares, counts, descriptor = self.messages.unpack_step(message.payload)
        shard = self.staged.pop(descriptor, None) or self._begin_copy(descriptor)
        step = self.steps[key]
        step.compares = compares
        if step.model.training != training:
            step.model.train(training)
        run = {self.messages.TRAIN: step.train, self.messages.TEST: step.test, self.messages.PREDICT: step.predict}
        try:
            run[message.kind](shard.ready(), counts)
        except self.link.DifferentPaths:  # rank 0 raises it too, and ends its workers
            return
        except RuntimeError as error:
            if self.messages.about_connection(error):  # this rank survived another rank's failure, and is not the cause
                self.worker.set_phase(workers.COMMUNICATING)
            raise
        shard.wait()
        self.reader.release(descriptor)

    def _begin_copy(self, descriptor: bytes) -> Any:
        return self.stage.begin_copy(self.reader.read(descriptor), self.options["device"])
