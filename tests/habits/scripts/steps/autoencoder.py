"""An autoencoder: the input is the target."""

import keras

from tests.habits.data import images

x, _ = images()
encoder = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(5, "relu")], name="encoder")
decoder = keras.Sequential([keras.layers.Dense(64, "sigmoid"), keras.layers.Reshape((8, 8, 1))], name="decoder")
model = keras.Sequential([keras.Input((8, 8, 1)), encoder, decoder])
model.compile("adam", "binary_crossentropy")
history = model.fit(x, x, epochs=3, batch_size=8, verbose=0)
result = {"model": model, "history": history, "codes": encoder.predict(x, verbose=0)}
