"""Mixed precision in bfloat16 by the global policy."""

import keras

from tests.habits.data import classification

keras.mixed_precision.set_global_policy("mixed_bfloat16")
x, y = classification()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax", dtype="float32")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"history": history, "weights": model.get_weights()}
TOLERANCE = 5e-2  # bfloat16 keeps 8 bits
