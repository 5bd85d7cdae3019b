"""Training is interrupted by the user (Ctrl-C in a notebook), evaluated, and goes on."""

import keras

from tests.habits.data import regression


class CtrlC(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            raise KeyboardInterrupt


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
try:
    model.fit(x, y, epochs=5, batch_size=8, shuffle=False, callbacks=[CtrlC()], verbose=0)
except KeyboardInterrupt:
    print("interrupted")
between = model.evaluate(x, y, verbose=0)
history = model.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0)
result = {"between": between, "model": model, "history": history}
