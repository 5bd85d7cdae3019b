"""The constants of a model's compiled training step: attributes of the model's parts, and data that the code of the step reads.

Such a value may change after the step was compiled. The step of a restart is compiled with the present value, which is announced:
where a checkpoint is saved after the change, and where the step of a restart differs from the step of the checkpoint. Checkpoints
hold a step's values as texts, except for values that were as the script makes them. Values that the step's own code changes while
it is compiled, as a count of its calls, are not compared.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import keras

from abreast.checkpoints.part_attributes import attributes_of, contents_of, parts_of
from abreast.checkpoints.reached import compiles_steps, data_of_steps, is_compiled, is_users
from abreast.feed.values import content, text_of_data
from abreast.stderr import tell_once


@dataclass(frozen=True)
class _Compiled:
    """A training step, the attributes of the model's parts when it was compiled, and the data that its code then reached."""

    step: weakref.ref[Any]
    parts: list[tuple[weakref.ref[Any], dict[str, Any]]]
    reached: dict[str, Any]


@dataclass(frozen=True)
class _Saved:
    """A training step, and what checkpoints hold of it: the texts of values that were not as the script makes them."""

    step: weakref.ref[Any]
    changed: Mapping[str, str]


@dataclass
class _Texts:
    """Texts of a model's values, each from the first `note` that found it."""

    parts: list[tuple[weakref.ref[Any], dict[str, str]]] = field(default_factory=list)
    reached: dict[str, str] = field(default_factory=dict)

    def note(self, model: Any) -> None:
        known = self.by_part()
        self.parts += [(weakref.ref(each), _texts_of(each)) for each in parts_of(model) if id(each) not in known]
        self.reached |= _texts({name: each for name, each in data_of_steps(model).items() if name not in self.reached})

    def by_part(self) -> dict[int, dict[str, str]]:
        return {id(part): texts for reference, texts in self.parts if (part := reference()) is not None}


# By model; nothing in them keeps a model.
_compiled: WeakKeyDictionary[Any, _Compiled] = WeakKeyDictionary()
_saved: WeakKeyDictionary[Any, _Saved] = WeakKeyDictionary()
_made: WeakKeyDictionary[Any, _Texts] = WeakKeyDictionary()  # at the beginning of a `fit`: as the script makes them


class CompiledStep:
    """The values in a model's training step. Made when a `fit` begins."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._step: Any = None
        self._before = _Texts()
        if compiles_steps():  # also for a model with eager steps: a callback may change that
            _made.setdefault(model, _Texts()).note(model)

    def begins(self) -> None:
        """Before a training step: if the step function is new, note the values that its code may change."""
        step = self._model.train_function
        if step is not self._step and is_compiled(self._model) and _known(self._model, step) is None:
            self._before = _Texts()
            self._before.note(self._model)

    def done(self) -> None:
        """After a training step: if the step function is new, note the values with which it was compiled."""
        if (step := self._model.train_function) is self._step:
            return
        self._step = step
        if is_compiled(self._model) and _known(self._model, step) is None:
            self._note(step)

    def read(self) -> dict[str, str] | None:
        """The values of the step, for other processes; None if it is not compiled."""
        saved = _saved.get(self._model)
        return None if saved is None or saved.step() is not self._model.train_function else dict(saved.changed)

    def write(self, saved: Mapping[str, str] | None) -> None:
        """Compare the present step, once it is compiled, with that of another process, whose `read` returned `saved`."""
        _saved.pop(self._model, None)
        if saved is not None and is_compiled(self._model):
            _saved[self._model] = _Saved(weakref.ref(self._model.train_function), saved)

    def say_what_has_changed(self, now: Mapping[int, Mapping[str, Any]]) -> None:
        """Announce changes since the step was compiled. `now`: present contents by the identity of a part."""
        if self._step is not self._model.train_function or not is_compiled(self._model):
            return
        if (compiled := _known(self._model, self._step)) is None:
            return
        reached = _contents(data_of_steps(self._model))
        for name in reached.keys() & compiled.reached.keys():
            if reached[name] != compiled.reached[name]:
                _announce(_key_of_reached(name))
        for reference, contents in compiled.parts:
            if (part := reference()) is None:
                continue
            present = now[id(part)] if id(part) in now else contents_of(part)
            for name in present.keys() & contents.keys():
                if contents[name] != present[name] and not _compiles_anew(name):
                    _announce(_key_of_attribute(0, part, name))

    def _note(self, step: Any) -> None:
        parts = [(weakref.ref(each), contents_of(each)) for each in parts_of(self._model)]
        data = data_of_steps(self._model)
        _compiled[self._model] = _Compiled(weakref.ref(step), parts, _contents(data))
        values = [*_of_parts(self._model, self._before), *_of_reached(self._model, data, self._before)]
        changed = {each.key: each.text for each in values if each.text != each.made}
        saved = _saved.get(self._model)
        if saved is None or saved.step() is not step:
            _saved[self._model] = _Saved(weakref.ref(step), changed)
        else:
            constant = {each.key: each.text for each in values if each.text == each.before}
            _say_what_differs(saved.changed, changed, constant)


def _known(model: Any, step: Any) -> _Compiled | None:
    """The facts about a compiled step; None for another one, and for one that was eager when it was new."""
    known = _compiled.get(model)
    return known if known is not None and step is not None and known.step() is step else None


@dataclass(frozen=True)
class _Value:
    """A value's key in checkpoints, and its text: now, as the script makes it (None if it does not), and before the step."""

    key: str
    text: str
    made: str | None
    before: str


def _of_parts(model: Any, before: _Texts) -> Iterator[_Value]:
    """The attributes of a model's parts. A part that was made after the `fit` began counts as unchanged.

    Code of Keras's classes does not read an attribute that a callback adds.
    """
    all_made, all_before = _made.get(model, before).by_part(), before.by_part()
    for number, part in enumerate(parts_of(model)):
        texts = _texts_of(part)
        made, known = all_made.get(id(part), texts), all_before.get(id(part), texts)
        for name, text in texts.items():
            if name in made or is_users(type(part).__module__):
                yield _Value(_key_of_attribute(number, part, name), text, made.get(name), known.get(name, text))


def _of_reached(model: Any, data: Mapping[str, Any], before: _Texts) -> Iterator[_Value]:
    made = _made.get(model, before).reached
    for name, text in _texts(data).items():
        yield _Value(_key_of_reached(name), text, made.get(name), before.reached.get(name, text))


def _say_what_differs(saved: Mapping[str, str], changed: Mapping[str, str], constant: Mapping[str, str]) -> None:
    """Announce values of this step that differ from a checkpoint's. A script may make other ones in each process.

    `constant`: values that the code of the step has not changed while it was compiled.
    """
    for key in {**saved, **changed}:
        if key in constant and constant[key] != saved.get(key):
            _announce(key)


def _key_of_attribute(number: int, part: Any, name: str) -> str:
    return f"part {number} {type(part).__name__}.{name}"


def _key_of_reached(name: str) -> str:
    number, _, path = name.partition(".")
    return f"code {number} {path.removesuffix('.variables')}"


def _contents(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: content(value) for name, value in values.items()}


def _texts_of(part: Any) -> dict[str, str]:
    return _texts({name: value for name, value in attributes_of(part) if not _compiles_anew(name)})


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, value in values.items() if (text := text_of_data(value)) is not None}


def _compiles_anew(name: str) -> bool:
    """Whether a step is compiled anew after a change of an attribute."""
    return name == "trainable" and keras.backend.backend() == "jax"


def _announce(key: str) -> None:
    tell_once(_COMPILED.format(key.split(" ", 2)[2]))


_COMPILED = (
    "{} has changed, and the training step may be compiled with its former value: the step of a restart is compiled with the "
    "present one\n"
    "hint: call model.make_train_function(force=True) after the change, or keep the value in a keras.Variable of a layer"
)
