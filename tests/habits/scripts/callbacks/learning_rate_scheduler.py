"""LearningRateScheduler with a function of the epoch."""

import keras

from tests.habits.data import regression


def schedule(epoch, rate):
    return rate if epoch < 2 else rate * 0.5


x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mae")
callback = keras.callbacks.LearningRateScheduler(schedule)
history = model.fit(x, y, epochs=4, batch_size=16, callbacks=[callback], verbose=0)
result = {"model": model, "history": history}
