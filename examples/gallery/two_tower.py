"""Train a two-tower model for recommendations with a `train_step` of your own, on any backend.

    abreast run --devices 4 examples/gallery/two_tower.py
    abreast run --cpu-devices 2 examples/gallery/two_tower.py --epochs 2

One tower makes a vector of a user, the other of an item; their product ranks items. Each row has an item that the user liked
and some that are drawn at random, so the loss is a mean over rows, and the number of devices does not change it. (Where the other
rows of a batch are the wrong items, rows depend on one another: write such a loss in `compute_loss`, which sees all rows.)

The likings are made up: nothing is downloaded. The three forms of `train_step` are those of Keras's guides, "Customizing what
happens in fit() with JAX", "... TensorFlow", "... PyTorch".
"""

import argparse

import keras
import numpy as np
from keras import layers, ops

NUM_USERS, NUM_ITEMS, NUM_WRONG = 500, 200, 9


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=256, help="rows of one step, over all devices")
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    users, items = likings(rows=20_000)
    rows = {"user": users, "items": items}
    model = TwoTower()
    model.compile(keras.optimizers.Adam(1e-2))
    model.fit(rows, batch_size=options.batch_size, epochs=options.epochs, verbose=2)
    scores = model.predict(rows, batch_size=options.batch_size, verbose=0)
    print(f"the liked item is first of {1 + NUM_WRONG} in {np.mean(scores.argmax(axis=1) == 0):.4f} of the rows")


def likings(rows):
    """Users (rows,) and items (rows, 1 + NUM_WRONG): first the liked one. Users like items of their own kind."""
    random = np.random.default_rng(0)
    users = random.integers(0, NUM_USERS, rows)
    liked = random.integers(0, NUM_ITEMS // 10, rows) * 10 + users % 10
    wrong = random.integers(0, NUM_ITEMS, (rows, NUM_WRONG))
    return users.astype("int32"), np.column_stack([liked, wrong]).astype("int32")


class TwoTower(keras.Model):
    """`{"user": (rows,), "items": (rows, n)}` to scores (rows, n); the first item of each row is the right one."""

    def __init__(self):
        super().__init__()
        self.user = keras.Sequential([layers.Embedding(NUM_USERS, 32), layers.Dense(16)])
        self.item = keras.Sequential([layers.Embedding(NUM_ITEMS, 32), layers.Dense(16)])
        self.loss_mean = keras.metrics.Mean("loss")

    def call(self, x, training=False):
        return ops.einsum("rd,rnd->rn", self.user(x["user"]), self.item(x["items"]))

    def ranking_loss(self, scores):
        right = ops.zeros(ops.shape(scores)[0], "int32")
        return ops.mean(keras.losses.sparse_categorical_crossentropy(right, scores, from_logits=True))

    @property
    def metrics(self):
        return [self.loss_mean]

    def train_step(self, *arguments):
        return STEPS[keras.backend.backend()](self, *arguments)


def tensorflow_step(model, data):
    import tensorflow as tf

    rows, _, _ = keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        loss = model.ranking_loss(model(rows, training=True))
    variables = model.trainable_variables
    model.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    model.loss_mean.update_state(loss, sample_weight=len_of(rows))
    return {"loss": model.loss_mean.result()}


def torch_step(model, data):
    rows, _, _ = keras.utils.unpack_x_y_sample_weight(data)
    model.zero_grad()
    loss = model.ranking_loss(model(rows, training=True))
    loss.backward()
    variables = model.trainable_variables
    model.optimizer.apply([variable.value.grad for variable in variables], variables)
    model.loss_mean.update_state(loss, sample_weight=len_of(rows))
    return {"loss": model.loss_mean.result()}


def jax_step(model, state, data):
    import jax

    trainable, non_trainable, optimizer, metrics = state
    rows, _, _ = keras.utils.unpack_x_y_sample_weight(data)

    def loss_of(trainable):
        scores, updated = model.stateless_call(trainable, non_trainable, rows, training=True)
        return model.ranking_loss(scores), updated

    (loss, non_trainable), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable)
    trainable, optimizer = model.optimizer.stateless_apply(optimizer, gradients, trainable)
    metrics = model.loss_mean.stateless_update_state(metrics, loss, sample_weight=len_of(rows))
    return {"loss": model.loss_mean.stateless_result(metrics)}, (trainable, non_trainable, optimizer, metrics)


def len_of(rows):
    """The number of rows: a mean over an epoch counts each row once."""
    return ops.shape(rows["user"])[0]


STEPS = {"jax": jax_step, "tensorflow": tensorflow_step, "torch": torch_step}


if __name__ == "__main__":
    main()
