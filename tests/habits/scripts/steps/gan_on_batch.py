"""The old way of a GAN: two compiled models that share layers, trained in turns by `train_on_batch`."""

import keras
import numpy as np

from tests.habits.data import images

rng = np.random.default_rng(0)
x = images(rows=32)[0].reshape(32, 64)
discriminator = keras.Sequential([keras.Input((64,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1, "sigmoid")])
discriminator.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
generator = keras.Sequential([keras.Input((3,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(64)])
discriminator.trainable = False
noise = keras.Input((3,))
gan = keras.Model(noise, discriminator(generator(noise)))
gan.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
losses = []
for step in range(4):
    draw = rng.normal(size=(8, 3)).astype("float32")
    fake = generator.predict(draw, verbose=0)
    both = np.concatenate([x[step * 8 : step * 8 + 8], fake])
    discriminator.trainable = True
    discriminator.compile(keras.optimizers.SGD(0.01), "binary_crossentropy")
    losses.append(discriminator.train_on_batch(both, np.repeat([[1.0], [0.0]], 8, axis=0)))
    discriminator.trainable = False
    losses.append(gan.train_on_batch(draw, np.ones((8, 1))))
result = {"gan": gan, "losses": [float(np.asarray(loss)) for loss in losses]}
