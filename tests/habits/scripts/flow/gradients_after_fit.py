"""Saliency: the gradient of a score by the input of a trained model, in each backend's way."""

import keras

from tests.habits.data import images

x, y = images()
model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(4, 3, activation="tanh"), keras.layers.Flatten()])
model.add(keras.layers.Dense(3))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, epochs=1, batch_size=10, verbose=0)
if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    inputs = tf.constant(x[:3])
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        score = tf.reduce_sum(model(inputs)[:, 0])
    gradient = tape.gradient(score, inputs)
elif keras.backend.backend() == "torch":
    import torch

    inputs = torch.tensor(x[:3], requires_grad=True)
    model(inputs)[:, 0].sum().backward()
    gradient = inputs.grad
else:
    import jax

    gradient = jax.grad(lambda inputs: model(inputs)[:, 0].sum())(x[:3])
result = gradient
