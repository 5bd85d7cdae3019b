"""A model is saved with its optimizer in the middle of training, loaded, and trained on."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
model.fit(x, y, epochs=2, batch_size=10, verbose=0)
model.save("model.keras")
loaded = keras.models.load_model("model.keras")
history = loaded.fit(x, y, epochs=2, batch_size=10, shuffle=False, verbose=0)
result = {"model": loaded, "history": history}
