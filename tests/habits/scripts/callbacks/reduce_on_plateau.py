"""ReduceLROnPlateau."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.05), "mse")
callback = keras.callbacks.ReduceLROnPlateau(factor=0.3, patience=1, min_delta=0.1, cooldown=1)
history = model.fit(x, y, epochs=8, batch_size=16, validation_split=0.25, callbacks=[callback], verbose=0)
result = {"model": model, "history": history}
