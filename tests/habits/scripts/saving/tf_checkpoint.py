"""`tf.train.Checkpoint` of model and optimizer, restored after more training."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, batch_size=10, verbose=0)
checkpoint = tf.train.Checkpoint(model=model)
path = checkpoint.write("point")
model.fit(x, y, batch_size=10, verbose=0)
checkpoint.read(path)
result = {"predict": model.predict(x, verbose=0), "weights": model.get_weights()}
