"""ModelCheckpoint writes weights at each epoch, under a name with the metric in it."""

import glob

import keras

from tests.habits.data import classification

x, y = classification()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, metrics=["accuracy"])
save = keras.callbacks.ModelCheckpoint("w-{epoch:02d}-{accuracy:.2f}.weights.h5", save_weights_only=True)
model.fit(x, y, epochs=3, batch_size=16, callbacks=[save], verbose=0)
files = sorted(glob.glob("*.h5"))
model.load_weights(files[0])
result = {"files": files, "first": model.get_weights(), "evaluate": model.evaluate(x, y, verbose=0)}
