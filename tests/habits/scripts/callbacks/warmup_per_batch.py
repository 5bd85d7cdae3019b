"""A callback warms the learning rate up, batch by batch."""

import keras

from tests.habits.data import classification


class WarmUp(keras.callbacks.Callback):
    def __init__(self, steps, rate):
        super().__init__()
        self.steps, self.rate, self.step = steps, rate, 0

    def on_train_batch_begin(self, batch, logs=None):
        self.step += 1
        self.model.optimizer.learning_rate = self.rate * min(1.0, self.step / self.steps)


x, y = classification()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
model.compile(
    keras.optimizers.SGD(0.0), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
)
history = model.fit(x, y, epochs=3, batch_size=8, callbacks=[WarmUp(10, 0.2)], verbose=0)
result = {"model": model, "history": history}
