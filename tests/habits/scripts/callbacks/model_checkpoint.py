"""ModelCheckpoint keeps the best model; it is loaded at the end."""

import os

import keras

from tests.habits.data import classification

x, y = classification()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax")])
model.compile("rmsprop", "sparse_categorical_crossentropy", metrics=["accuracy"])
save = keras.callbacks.ModelCheckpoint("best.keras", monitor="val_loss", save_best_only=True)
history = model.fit(x, y, epochs=3, batch_size=8, validation_data=(x[:10], y[:10]), callbacks=[save], verbose=0)
best = keras.models.load_model("best.keras")
result = {"files": os.listdir("."), "best": best, "history": history, "predict": best.predict(x, verbose=0)}
