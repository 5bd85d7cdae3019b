"""A `tf.data` pipeline: shuffled, mapped, batched, prefetched."""

NEEDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import classification

x, y = classification()
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(46, seed=3).map(lambda a, b: (a * 2.0, b))
data = data.batch(12).prefetch(tf.data.AUTOTUNE)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(data, epochs=2, validation_data=data.take(2), verbose=0)
result = {"model": model, "history": history, "rows": model.predict(data.map(lambda a, b: a), verbose=0).shape}
