"""A model wraps the function of its steps, as bayesflow does, and keeps the wrapper in an attribute."""

BACKENDS = ("torch",)

import keras

from tests.habits.data import regression

calls = []


class Counting(keras.Sequential):
    def make_train_function(self, force=False):
        super().make_train_function(force)
        function = self.train_function
        if getattr(self, "counting", None) is not function:

            def counting(iterator):
                calls.append(1)
                return function(iterator)

            self.train_function = self.counting = counting


x, y = regression()
model = Counting([keras.Input(x.shape[1:]), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=8, epochs=2, verbose=0)
result = {"model": model, "history": history, "calls": len(calls)}
