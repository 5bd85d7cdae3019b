"""ModelCheckpoint saves every three batches."""

import glob

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
model.compile("adam", "mse")
save = keras.callbacks.ModelCheckpoint("at-{epoch}-{batch}.weights.h5", save_weights_only=True, save_freq=3)
model.fit(x, y, epochs=2, batch_size=8, callbacks=[save], verbose=0)
seen = {}
for name in sorted(glob.glob("*.h5")):
    model.load_weights(name)
    seen[name] = model.get_weights()
result = seen
