"""A model is trained in a thread (a web application), watched and stopped from the main one."""

import threading

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
second = threading.Event()


class Tell(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            second.set()
            self.model.stop_training = True


thread = threading.Thread(target=lambda: model.fit(x, y, epochs=50, batch_size=16, callbacks=[Tell()], verbose=0))
thread.start()
result = {"seen": second.wait(60)}
thread.join()
result["model"] = model
