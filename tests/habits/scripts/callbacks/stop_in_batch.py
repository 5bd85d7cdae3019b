"""A callback ends the training in the middle of an epoch."""

import keras

from tests.habits.data import regression


class StopAtStep(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations == 4:
            self.model.stop_training = True


x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
first = model.fit(x, y, epochs=3, batch_size=16, callbacks=[StopAtStep()], verbose=0)
second = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "first": first, "second": second}
