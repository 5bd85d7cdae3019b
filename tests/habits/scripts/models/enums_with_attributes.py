"""Layers that hold members of the script's own `Enum`s, whose `__init__` or `__new__` gives them attributes."""

import enum

import keras

from tests.habits.data import regression


class Mode(enum.Enum):
    SOFT = (1, 0.5)
    HARD = (2, 2.0)
    GENTLE = (1, 0.5)  # a second name of the first

    def __init__(self, number, scale):
        self.number, self.scale = number, scale


class Labelled(bytes, enum.Enum):
    def __new__(cls, value, label):
        member = bytes.__new__(cls, [value])
        member._value_, member.label = value, label
        return member

    FIRST = (1, 0.25)
    SECOND = (2, 0.75)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Name(str, enum.Enum):
    TANH = "tanh"


class Flags(enum.Flag):
    TWICE = enum.auto()
    SHIFTED = enum.auto()


class Scaled(keras.layers.Layer):
    def __init__(self, mode, **options):
        super().__init__(**options)
        self.mode, self.label, self.level, self.flags = mode, Labelled.SECOND, Level.HIGH, Flags.TWICE | Flags.SHIFTED
        self.activation = keras.activations.get(Name.TANH.value)

    def call(self, inputs):
        scale = self.mode.scale * self.label.label * self.label[0] * self.level
        scale = 2.0 * scale if Flags.TWICE in self.flags else scale
        return scale * (
            self.activation(inputs)
            if Name("tanh") is Name.TANH and Mode["GENTLE"] is Mode.SOFT and self.mode is Mode(self.mode.value)
            else inputs
        )


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), Scaled(Mode.SOFT), keras.layers.Dense(1)])
model.compile("sgd", "mse")
histories = [model.fit(x, y, epochs=2, batch_size=16, verbose=0)]
model.layers[1].mode = Mode.HARD
model.compile("sgd", "mse")
histories.append(model.fit(x, y, epochs=1, batch_size=16, verbose=0))
result = {"model": model, "histories": histories}
