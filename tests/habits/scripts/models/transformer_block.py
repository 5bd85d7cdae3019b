"""A transformer block over tokens, with a mask, without dropout."""

import keras
from keras import layers

from tests.habits.data import tokens

ids, y = tokens()
inputs = keras.Input((7,), dtype="int32")
embedded = layers.Embedding(20, 8, mask_zero=True)(inputs)
attended = layers.MultiHeadAttention(2, 4)(embedded, embedded)
normal = layers.LayerNormalization()(layers.add([embedded, attended]))
outputs = layers.Dense(1, "sigmoid")(layers.GlobalAveragePooling1D()(layers.Dense(8, "gelu")(normal)))
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.AdamW(0.01), "binary_crossentropy", metrics=["accuracy", "AUC"])
history = model.fit(ids, y, epochs=2, batch_size=8, verbose=0)
result = {"model": model, "history": history, "predict": model.predict(ids, verbose=0)}
