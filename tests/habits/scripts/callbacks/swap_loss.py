"""A callback compiles the model with another loss between two fits."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(0.01)
histories = []
for loss in ("mse", "mae", keras.losses.Huber(0.5)):
    model.compile(optimizer, loss)
    histories.append(model.fit(x, y, epochs=2, batch_size=8, verbose=0))
result = {"model": model, "histories": histories}
