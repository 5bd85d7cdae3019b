"""A subclassed model that is built by its first batch."""

import keras

from tests.habits.data import classification


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [keras.layers.Dense(8, "relu") for _ in range(3)]
        self.head = keras.layers.Dense(3)

    def call(self, inputs, training=False):
        hidden = self.blocks[0](inputs)
        for block in self.blocks[1:]:
            hidden = hidden + block(hidden)
        return self.head(hidden)


x, y = classification()
model = Net()
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history, "evaluate": model.evaluate(x, y, verbose=0)}
