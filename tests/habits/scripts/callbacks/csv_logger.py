"""CSVLogger, appended to by a second fit."""

import csv

import keras

from tests.habits.data import classification

x, y = classification()
model = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy", metrics=["acc"])
model.fit(x, y, epochs=2, verbose=0, callbacks=[keras.callbacks.CSVLogger("log.csv")])
model.fit(x, y, epochs=4, initial_epoch=2, verbose=0, callbacks=[keras.callbacks.CSVLogger("log.csv", append=True)])
with open("log.csv") as file:
    rows = list(csv.reader(file))
result = {"rows": len(rows), "last": float(rows[2][1]), "head": rows[0], "model": model}
