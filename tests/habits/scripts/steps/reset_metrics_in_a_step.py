"""A step that resets the metrics first, so that its logs are those of its batch."""

BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression


class Fresh(keras.Model):
    def train_step(self, *args):
        self.reset_metrics()
        return super().train_step(*args)

    def test_step(self, *args):
        self.reset_metrics()
        return super().test_step(*args)


x, y = regression(rows=64)
inputs = keras.Input((x.shape[1],))
model = Fresh(inputs, keras.layers.Dense(1)(inputs))
model.compile("sgd", "mse", metrics=["mae"])
history = model.fit(x, y, batch_size=16, epochs=2, shuffle=False, validation_data=(x, y), verbose=0)
result = {"model": model, "history": history, "evaluate": model.evaluate(x, y, batch_size=16, verbose=0)}
