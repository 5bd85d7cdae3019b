"""EarlyStopping with restored weights."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=1, min_delta=0.05, restore_best_weights=True)
history = model.fit(x, y, epochs=12, batch_size=8, validation_split=0.2, callbacks=[stop], verbose=0)
result = {
    "model": model,
    "history": history,
    "stopped": stop.stopped_epoch,
    "evaluate": model.evaluate(x, y, verbose=0),
}
