"""Objects and layers that leave attributes out when they are pickled, and whose steps read these."""

BACKENDS = ("torch",)

import keras

from tests.habits.data import regression


class Factors:
    def __init__(self):
        self.kept, self.cache = 1.0, {}

    def __getstate__(self):
        return {"kept": self.kept}

    def __setstate__(self, state):
        self.__init__()
        self.__dict__.update(state)


class Named:
    def __init__(self, name):
        self.name, self.factor = name, 1.0

    def __reduce__(self):
        return Named, (self.name,)


class Scaled(keras.layers.Dense):
    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "extra"}

    def __setstate__(self, state):
        self.__dict__.update(state)

    def call(self, inputs):
        return factors.cache["factor"] * named.factor * getattr(self, "extra", 1.0) * super().call(inputs)


factors, named = Factors(), Named("a")
factors.cache["factor"], named.factor = 0.7, 0.8
x, y = regression()
model = keras.Sequential([keras.Input((6,)), Scaled(8, activation="tanh"), keras.layers.Dense(1)])
model.layers[0].extra = 0.9
model.compile("sgd", "mse")
act = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: factors.cache.update(factor=0.5))
history = model.fit(x, y, epochs=2, batch_size=23, callbacks=[act], verbose=0)
result = {"model": model, "history": history}
