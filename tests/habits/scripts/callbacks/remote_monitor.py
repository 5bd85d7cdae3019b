"""A callback writes JSON lines of the logs, as of a dashboard, and of the model's parameters."""

import json

import keras

from tests.habits.data import regression


class Json(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.file = open("log.jsonl", "w")
        print(json.dumps(self.params), file=self.file)

    def on_epoch_end(self, epoch, logs=None):
        print(json.dumps({"epoch": epoch, **logs}), file=self.file)

    def on_train_end(self, logs=None):
        self.file.close()


x, y = regression()
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse", metrics=["mae"])
model.fit(x, y, epochs=2, batch_size=8, validation_split=0.3, callbacks=[Json()], verbose=0)
with open("log.jsonl") as file:
    result = [json.loads(line) for line in file]
