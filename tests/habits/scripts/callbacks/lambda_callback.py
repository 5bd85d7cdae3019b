"""LambdaCallback notes what happens."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
notes = []
callback = keras.callbacks.LambdaCallback(
    on_epoch_begin=lambda epoch, logs: notes.append(f"epoch {epoch}"),
    on_train_batch_end=lambda batch, logs: notes.append(float(logs["loss"])),
    on_train_end=lambda logs: notes.append(float(logs["loss"])),
)
model.fit(x, y, epochs=2, batch_size=10, callbacks=[callback], verbose=0)
result = notes
