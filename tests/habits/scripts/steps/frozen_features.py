"""Features of a frozen model are predicted once, and a head is trained on them."""

import keras

from tests.habits.data import images

x, y = images()
base = keras.Sequential(
    [keras.Input((8, 8, 1)), keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.GlobalAveragePooling2D()]
)
features = base.predict(x, batch_size=7, verbose=0)
head = keras.Sequential([keras.layers.Dense(3, "softmax")])
head.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
history = head.fit(features, y, epochs=3, batch_size=8, verbose=0)
result = {"features": features, "head": head, "history": history}
