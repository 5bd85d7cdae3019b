"""A `train_step` of one's own, with batches that four devices cannot share equally."""

EXPECTED = {"tensorflow": "announced: has its own train_step", "torch": "announced: has its own train_step"}
BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression


class CustomModel(keras.Model):
    def train_step(self, data):
        logs = super().train_step(data)
        return {**logs, "double": 2 * logs["loss"]}


x, y = regression(rows=45)
inputs = keras.Input((6,))
model = CustomModel(inputs, keras.layers.Dense(1)(keras.layers.Dense(8, "relu")(inputs)))
model.compile(optimizer="adam", loss="mse")
history = model.fit(x, y, epochs=2, batch_size=15, verbose=0)
result = {"model": model, "history": history}
