"""Models cut out of a trained one: features of a middle layer."""

import keras

from tests.habits.data import images

x, y = images()
model = keras.Sequential(
    [keras.Input((8, 8, 1)), keras.layers.Conv2D(4, 3, name="conv"), keras.layers.Flatten(), keras.layers.Dense(3)]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, epochs=1, batch_size=10, verbose=0)
features = keras.Model(model.inputs, model.get_layer("conv").output)
result = {"features": features.predict(x, batch_size=7, verbose=0), "direct": features(x[:2])}
