"""A target network follows the model by a moving average, in a callback (as in self-supervised and Q-learning)."""

import keras

from tests.habits.data import regression


class Follow(keras.callbacks.Callback):
    def __init__(self, target):
        super().__init__()
        self.target = target

    def on_train_batch_end(self, batch, logs=None):
        for own, other in zip(self.target.weights, self.model.weights, strict=True):
            own.assign(0.9 * own + 0.1 * other)


def make():
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])


x, y = regression()
model, target = make(), make()
target.set_weights(model.get_weights())
model.compile("adam", "mse")
model.fit(x, y, epochs=2, batch_size=16, callbacks=[Follow(target)], verbose=0)
result = {"model": model, "target": target.get_weights(), "predict": target.predict(x, verbose=0)}
