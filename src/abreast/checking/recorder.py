"""Replaces Keras's public methods by methods that log their results, and ends each `fit` after a given number of steps.

Both sides do the same. A `fit` ends as if its data had ended: validation, callbacks and later code run as usual, and its
`History` repeats the last epoch for the missing epochs.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import tree

from abreast.checking import changes
from abreast.checking.batches import SourceFingerprints, fingerprint, watch, watched_feeds
from abreast.checking.facts import call_facts, model_facts
from abreast.checking.log import LogWriter, plain_array
from abreast.checking.state import Arrays, numbers_of, state_of
from abreast.feed import ENDED_EARLY, cut_validation
from abreast.keras_private.data_adapters import registry as data_adapters
from abreast.replacing import replaced
from abreast.stderr import tell, without

# A loop of `train_on_batch` is ended after this many times the compared steps: it might not end by itself.
_PATIENCE = 50


class LoopCut(SystemExit):
    """Ends a script whose loop of `train_on_batch` does not end, past any `except Exception` of the script."""


@dataclass
class EventRecorder:
    """Writes events to `log` and collects facts in `facts`. Each `fit` runs `steps` steps.

    `moves`: the weights are moved by one rounding before each step.
    """

    log: LogWriter
    steps: int
    no_random: bool = False
    moves: bool = False
    facts: dict[str, Any] = field(default_factory=lambda: {"models": {}, "calls": {}})
    _models: list[Any] = field(default_factory=list)
    _num_calls: dict[str, int] = field(default_factory=dict)
    _batches_trained: dict[int, int] = field(default_factory=dict)
    _last_logs: dict[int, Any] = field(default_factory=dict)
    _sources: list[tuple[Any, SourceFingerprints]] = field(default_factory=list)
    _left: list[Any] = field(default_factory=list)  # models whose last call raised
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record all models of the process inside the block."""
        trainer: Any = keras.Model
        results = ("evaluate", "predict", "test_on_batch", "predict_on_batch")
        records = {"fit": self._fit, "train_on_batch": self._train_on_batch}
        records |= {name: functools.partial(self._result, name) for name in results}
        with ExitStack() as stack:
            for name, record in records.items():
                stack.enter_context(
                    replaced(trainer, name, _recording(getattr(trainer, name), self._noting_exceptions(record)))
                )
            stack.enter_context(replaced(keras.layers.Layer, "add_loss", self._adding(keras.layers.Layer.add_loss)))
            plain = data_adapters.get_data_adapter
            stack.enter_context(replaced(data_adapters, "get_data_adapter", self._adapting(plain)))
            stack.enter_context(watched_feeds(self._seen_of))
            yield

    def end(self) -> None:
        """Record the final state of all models of the process, except models whose last call raised an exception.

        In the middle of a step, JAX's variables have no values.
        """
        for number, model in enumerate(self._models):
            if any(model is each for each in self._left):
                continue
            self.log.add("end", f"{model.name} (model {number + 1})", state_of(model))
        self.log.close()

    def _noting_exceptions(self, record: Callable[..., Any]) -> Callable[..., Any]:
        def noting(plain: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
            self._left.append(model)
            result = record(plain, model, args, kwargs)
            self._left = [each for each in self._left if each is not model]
            return result

        return noting

    def _fit(self, plain: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        bound = inspect.signature(plain).bind(model, *args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        call = self._begin(model, "fit")
        self.facts["calls"][call] = call_facts(given["callbacks"], given["x"])
        cut_validation(given)  # done now, so that the training's source is one recognizable object
        seen = SourceFingerprints()
        if isinstance(given["x"], types.GeneratorType):
            asked = (given["steps_per_epoch"] or self.steps) * (given["epochs"] - given["initial_epoch"])
            given["x"] = _no_more_than(given["x"], min(asked, self.steps))
        if given["validation_data"] is not None and _first(given["validation_data"]) is given["x"]:
            given["validation_data"] = _another(given["validation_data"])
        self._sources.append((given["x"], seen))
        steps = _Steps(self, model, call, seen)
        given["callbacks"] = _with(given["callbacks"], steps)
        try:
            with without(lambda line: steps.cut and line.startswith(ENDED_EARLY)):
                history = plain(*bound.args, **bound.kwargs)
        finally:
            self._sources.pop()
            self.facts["calls"][call]["draws"] = seen.draws
        self.log.add("history", call, numbers_of(model.history.history) | state_of(model))
        if steps.cut:
            _repeat_last_epoch(model.history, given["epochs"] - given["initial_epoch"])
            keras.utils.set_random_seed(
                steps.done
            )  # the sides' sources may have drawn different amounts ahead of the end
        return history

    def _train_on_batch(self, plain: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        done = self._batches_trained[id(model)] = self._batches_trained.get(id(model), 0) + 1
        if done > self.steps:
            return self._skip(model, done)
        call = self._begin(model, "train_on_batch", every=False)
        if done == 1:
            self._prepare(model)
        if self.moves:
            self._move(model)
        logs = plain(model, *args, **kwargs)
        batch = fingerprint((args, {name: value for name, value in kwargs.items() if name != "return_dict"}))
        arrays = _results(logs, "log") | state_of(model)
        self.log.add("step", call, arrays, step=done, batch=batch.batch, rows=batch.rows)
        self._last_logs[id(model)] = logs
        return logs

    def _skip(self, model: Any, done: int) -> Any:
        if done == self.steps + 1:
            tell(f"further calls of train_on_batch of {model.name} are skipped")
        if done > self.steps * _PATIENCE:
            tell("the script is ended here: its loop of train_on_batch goes on")
            raise LoopCut(0)
        return self._last_logs[id(model)]

    def _result(self, name: str, plain: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        if "_use_cached_eval_dataset" in kwargs:  # Keras's own validation in `fit`
            return plain(model, *args, **kwargs)
        call = self._begin(model, name)
        if self.moves:
            self._move(model)
        result = plain(model, *args, **kwargs)
        self.log.add("result", call, _results(_named(model, result), "result"))
        return result

    def _begin(self, model: Any, name: str, every: bool = True) -> str:
        """The name of a call: the method, the model, and a number if it is not the first such call."""
        if not any(model is each for each in self._models):
            self._models.append(model)
        if self.no_random:  # now, before workers get a copy, and again in `_prepare`, after all layers are built
            changes.switch_off_random(model)
        number = next(n for n, each in enumerate(self._models) if each is model) + 1
        of = f"{name} of {model.name}" if number == 1 else f"{name} of {model.name} (model {number})"
        self._num_calls[of] = count = self._num_calls.get(of, 0) + 1
        return of if count == 1 or not every else f"{of}, call {count}"

    def begin_steps(self, model: Any, call: str) -> None:
        """Record the state before the first step of a `fit`. Keras builds some models only in that step."""
        self._prepare(model)
        self.log.add("begin", call, state_of(model))
        if self.moves:
            self._move(model)

    def _prepare(self, model: Any) -> None:
        if self.no_random:
            changes.switch_off_random(model)
        self._describe(model)

    def _describe(self, model: Any) -> None:
        number = next(n for n, each in enumerate(self._models) if each is model) + 1
        self.facts["models"][f"{model.name} {number}"] = model_facts(model)

    def step(self, model: Any, call: str, step: int, logs: Any, batch: Any) -> None:
        if model is not None and step == 1:
            self._describe(model)
        state = state_of(model) if model is not None else {}
        kind = "step" if model is not None else "epoch"
        prints = {"batch": batch.batch, "rows": batch.rows} if batch is not None else {}
        self.log.add(kind, call, numbers_of(logs or {}) | state, step=step, **prints)
        if self.moves and model is not None:
            self._move(model)

    def _move(self, model: Any) -> None:
        changes.move_by_a_rounding(model, self._random)

    def _seen_of(self, x: Any) -> SourceFingerprints | None:
        """The fingerprints of the training in progress if `x` is its source; None otherwise."""
        return self._sources[-1][1] if self._sources and x is not None and self._sources[-1][0] is x else None

    def _adapting(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def get_data_adapter(x: Any, *args: Any, **kwargs: Any) -> Any:
            adapter = plain(x, *args, **kwargs)
            if (seen := self._seen_of(x)) is not None:
                watch(adapter, seen)
            return adapter

        return get_data_adapter

    def _adding(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def add_loss(layer: Any, loss: Any) -> Any:
            if layer.name not in (names := self.facts.setdefault("add_loss", [])):
                names.append(layer.name)
            return plain(layer, loss)

        return add_loss


class _Steps(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Records the state after each step of a `fit`, after the user's callbacks, and ends the `fit` after its last step."""

    def __init__(self, recorder: EventRecorder, model: Any, call: str, seen: SourceFingerprints) -> None:
        super().__init__()
        self._recorder, self._call, self._seen = recorder, call, seen
        self._begun = 0
        self.done = 0
        self.cut = False

    def on_train_begin(self, logs: Any = None) -> None:
        self._recorder.begin_steps(self.model, self._call)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._begun = batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        count = batch - self._begun + 1
        self.done += count
        self._recorder.step(self.model, self._call, self.done, logs, self._seen.used(count))
        if self.done >= self._recorder.steps:
            self.cut = self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._recorder.step(None, self._call, epoch + 1, logs, None)


def _recording(plain: Callable[..., Any], record: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return record(plain, self, args, kwargs)

    return method


def _no_more_than(batches: Any, count: int) -> Iterator[Any]:
    """The first `count` batches of a generator, so that plain Keras and our feed, which read ahead, read the same number."""
    yield from itertools.islice(batches, count)


def _first(data: Any) -> Any:
    return data[0] if isinstance(data, tuple | list) and data else data


def _another(data: Any) -> Any:
    """The same validation data as a new object, so that it is not mistaken for the training's source."""
    if not isinstance(data, tuple | list):
        return data
    x = tree.map_structure(lambda leaf: leaf[:] if isinstance(leaf, np.ndarray) else leaf, data[0])
    return (x, *data[1:])


def _with(callbacks: Any, last: Any) -> Any:
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks.append(last)
        callbacks._async_train = False
        return callbacks
    return [*(each for each in tree.flatten(callbacks) if each is not None), last]


def _repeat_last_epoch(history: Any, epochs: int) -> None:
    """Extend a `History` to the requested number of epochs, for scripts that read all of them."""
    for values in history.history.values():
        if len(values) == len(history.epoch):
            values.extend(values[-1:] * (epochs - len(values)))


def _named(model: Any, result: Any) -> Any:
    """The result of `evaluate` as a dictionary by metric, if it is a list; other results unchanged."""
    names = list(model.get_metrics_result()) if isinstance(result, list) and model.compiled else []
    return dict(zip(names, result, strict=True)) if names and len(names) == len(result) else result


def _results(result: Any, group: str) -> Arrays:
    found = {}
    for path, leaf in tree.flatten_with_path(result):
        if leaf is None:
            continue
        array = plain_array(leaf.detach().cpu() if hasattr(leaf, "detach") else leaf)
        found[group, "/".join(map(str, path)) or "the result"] = array
    return found
