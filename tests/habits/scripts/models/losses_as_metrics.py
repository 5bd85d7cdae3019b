"""Loss objects among the metrics, which reduce a batch to one number."""

import keras

from tests.habits.data import classification

x, y = classification()
targets = keras.utils.to_categorical(y, 3)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, "softmax")])
summed = keras.losses.CategoricalCrossentropy(reduction="sum", name="summed")
model.compile(
    "adam", "categorical_crossentropy", metrics=[keras.losses.MeanAbsoluteError(), keras.losses.Dice(), summed]
)
history = model.fit(x, targets, batch_size=9, epochs=2, validation_split=0.3, verbose=0)
result = {"model": model, "history": history}
