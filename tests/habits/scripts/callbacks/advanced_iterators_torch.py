"""Iterators that a layer reads in its steps, and that a callback advances between them."""

BACKENDS = ("torch",)

import itertools

import keras

from tests.habits.data import regression


class Scaled(keras.layers.Dense):
    def __init__(self, units, factors, **options):
        super().__init__(units, **options)
        self.factors = factors

    def call(self, inputs, training=False):
        outputs = super().call(inputs)
        return outputs * next(self.factors) if training else outputs


FACTORS = [1.0, 0.9, 0.7, 0.4, 0.8, 0.3, 0.6, 0.5, 0.2]


def skip(iterator):
    for _ in range(2):
        next(iterator)


MAKE = {
    "cycle": lambda: itertools.cycle(FACTORS),
    "list": lambda: iter(FACTORS * 4),
    "count": lambda: itertools.count(0.1, 0.05),
    "map": lambda: map(float, iter(FACTORS * 4)),
}
x, y = regression()
result = {}
for name, make in MAKE.items():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([Scaled(8, itertools.count(1), activation="tanh"), keras.layers.Dense(1)])
    model.build((None, 6))
    factors = model.layers[0].factors = make()
    model.compile(keras.optimizers.SGD(0.02), "mse")
    act = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs, iterator=factors: skip(iterator))
    result[name] = model.fit(x, y, epochs=3, batch_size=23, callbacks=[act], verbose=0)
    result[name + " next"] = next(factors)
