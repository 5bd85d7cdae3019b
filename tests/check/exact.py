"""Scripts that are exact, of many habits: a check must raise no alarm. `backends` says on which it runs in the table."""

from __future__ import annotations

from dataclasses import dataclass

from tests.check.planted import text
from tests.harness.client import BACKENDS


@dataclass(frozen=True)
class Exact:
    name: str
    backend: str
    script: str
    options: tuple[str, ...] = ()

    def text(self, root: str) -> str:
        return text(self.script, root)


FIT = "compiled(layers.Dense(8, activation='relu'), metrics=['mae']).fit(x, y, batch_size=16, epochs=3, verbose=0)"
ADAM_BEFORE_NORM = """
    model = compiled(layers.Dense(8), layers.BatchNormalization(), layers.ReLU(), optimizer="adam")
    model.fit(x, y, batch_size=16, epochs=5, verbose=0)
    print(model.evaluate(x, y, verbose=0), model.predict(x, verbose=0)[:2])
"""
VALIDATED = """
    history = compiled(metrics=["mae"]).fit(x, y, batch_size=10, epochs=9, validation_split=0.2, verbose=0)
    print(history.history["val_mae"][8])
"""
CALLBACKS = """
    stop = keras.callbacks.EarlyStopping(monitor="loss", patience=1, restore_best_weights=True)
    slower = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
    compiled().fit(x, y, batch_size=32, epochs=6, callbacks=[stop, slower], verbose=0)
"""
GENERATOR = """
    def batches():
        while True:
            chosen = np.random.randint(0, 64, 13)
            yield x[chosen], y[chosen]

    source, model = batches(), compiled()
    model.fit(source, steps_per_epoch=5, epochs=2, verbose=0)
    model.fit(source, steps_per_epoch=4, verbose=0)
"""
PY_DATASET = """
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 5

        def __getitem__(self, index):
            return x[index * 11 : index * 11 + 11], y[index * 11 : index * 11 + 11]

    compiled(optimizer="rmsprop").fit(Batches(workers=2), epochs=2, verbose=0)
"""
TF_DATA = """
    import tensorflow as tf
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64, seed=3).batch(9)
    compiled(layers.Dense(3)).fit(data, epochs=2, validation_data=data, verbose=0)
"""
LOADER = """
    import torch
    data = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    compiled(layers.Dense(3)).fit(torch.utils.data.DataLoader(data, 12, shuffle=True), epochs=2, verbose=0)
"""
ON_BATCHES = """
    model = compiled()
    for step in range(40):
        loss = model.train_on_batch(x[:17], y[:17])
    print(loss, model.test_on_batch(x, y), model.predict_on_batch(x[:3]).shape)
"""
TWO_MODELS = """
    judge = keras.Sequential([keras.Input((6,)), layers.Dense(4, activation="relu"), layers.Dense(1)], name="judge")
    judge.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    maker = keras.Sequential([keras.Input((3,)), layers.Dense(6)], name="maker")
    maker.compile("adam", "mse")
    for _ in range(6):
        noise = np.random.normal(size=(16, 3))
        judge.train_on_batch(np.concatenate([x[:16], maker.predict(noise, verbose=0)]), np.repeat([[1.0], [0.0]], 16, 0))
        maker.train_on_batch(noise, x[:16])
"""
OWN_LAYERS = """
    class Scale(layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")

        def call(self, x):
            return x * self.scale

    compiled(Scale(), Scale()).fit(x, y, batch_size=16, epochs=2, verbose=0)
"""
OWN_LOSS = """
    class Twice(Model):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return 2 * keras.ops.mean(keras.ops.square(y - y_pred)) + 0.1 * keras.ops.std(y_pred)

    model = Twice()
    model.compile("adam")
    model.fit(x, y, batch_size=16, verbose=0)
"""
WEIGHTED = """
    weights = np.linspace(0.1, 2, 64)
    compiled(weighted_metrics=["mse"]).fit(x, y, sample_weight=weights, batch_size=16, epochs=2, verbose=0)
"""
CLASSES = """
    labels = (y[:, 0] > 0).astype("int32")
    model = keras.Sequential([keras.Input((6,)), layers.Dense(2, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy", keras.metrics.SparseCategoricalCrossentropy()])
    model.fit(x, labels, class_weight={0: 1.0, 1: 3.0}, batch_size=16, epochs=2, verbose=0)
    print(model.evaluate(x, labels, return_dict=True, verbose=0))
"""
TWO_OUTPUTS = """
    inputs = keras.Input((6,), name="in")
    hidden = layers.Dense(8, activation="tanh", kernel_regularizer="l2")(inputs)
    model = keras.Model(inputs, {"a": layers.Dense(1, name="a")(hidden), "b": layers.Dense(3, name="b")(hidden)})
    model.compile("adam", {"a": "mse", "b": "mae"}, metrics={"a": ["mae"]})
    model.fit({"in": x}, {"a": y, "b": x[:, :3]}, batch_size=16, epochs=2, verbose=0)
    model.predict({"in": x}, verbose=0)
"""
RECURRENT = """
    model = keras.Sequential([keras.Input((6, 1)), layers.LSTM(5), layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x[..., None], y, batch_size=16, epochs=2, verbose=0)
"""
WORDS = """
    words = rows.integers(0, 20, (64, 7))
    model = keras.Sequential([keras.Input((7,)), layers.Embedding(20, 4), layers.GlobalAveragePooling1D(), layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.fit(words, y, batch_size=20, epochs=3, verbose=0)
"""
DROPOUT = """
    compiled(layers.Dense(16), layers.Dropout(0.5)).fit(x, y, batch_size=16, epochs=3, verbose=0)
"""
MIXED = """
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
    compiled(layers.Dense(16, activation="relu")).fit(x, y, batch_size=16, epochs=2, verbose=0)
"""
LOOKED_AT = """
    model = compiled(layers.Dense(16, activation="gelu"))
    print(model.evaluate(x, y, verbose=0), model.predict(x, batch_size=7, verbose=0).sum())
"""
UNSTABLE = """
    compiled(layers.Dense(64, activation="tanh"), layers.Dense(64, activation="tanh"), optimizer=keras.optimizers.SGD(0.8)).fit(
        x, 20 * y, batch_size=16, epochs=20, verbose=0)
"""
ROUNDED_BIAS = """
    import tensorflow as tf

    class Ranks(keras.Model):  # the same bias for all items changes no rank: its gradient is rounding alone
        def __init__(self):
            super().__init__()
            self.item = keras.Sequential([layers.Embedding(50, 16), layers.Dense(8)])

        def call(self, items, training=False):
            return keras.ops.sum(self.item(items), axis=-1)

        def train_step(self, data):
            right = tf.zeros(tf.shape(data)[0], "int32")
            with tf.GradientTape() as tape:
                scores = self(data, training=True)
                loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(right, scores, from_logits=True))
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return {"own": loss}

    model = Ranks()
    model.compile("adam")
    model.fit(np.random.default_rng(0).integers(0, 50, (300, 6)), batch_size=32, epochs=2, verbose=0)
"""

EXACT: tuple[Exact, ...] = (
    Exact("dense, sgd", "tensorflow", FIT),
    Exact("adam before a norm", "jax", ADAM_BEFORE_NORM),
    Exact("adam before a norm", "torch", ADAM_BEFORE_NORM),
    *(Exact("adam in float64", backend, ADAM_BEFORE_NORM, ("--float64",)) for backend in BACKENDS),
    Exact("validation", "tensorflow", VALIDATED),
    Exact("early stopping", "jax", CALLBACKS),
    Exact("generator, two fits", "jax", GENERATOR),
    Exact("dataset with workers", "torch", PY_DATASET),
    Exact("tf.data", "tensorflow", TF_DATA),
    Exact("data loader", "torch", LOADER),
    Exact("train_on_batch", "torch", ON_BATCHES),
    Exact("two models in turn", "jax", TWO_MODELS),
    Exact("layers of one's own", "torch", OWN_LAYERS),
    Exact("compute_loss", "tensorflow", OWN_LOSS),
    Exact("a bias that rounding moves", "tensorflow", ROUNDED_BIAS),
    Exact("sample weights", "jax", WEIGHTED),
    Exact("classes", "torch", CLASSES),
    Exact("two outputs", "tensorflow", TWO_OUTPUTS),
    Exact("lstm", "jax", RECURRENT),
    Exact("embedding", "tensorflow", WORDS),
    Exact("dropout on JAX", "jax", DROPOUT),
    Exact("dropout switched off", "torch", DROPOUT, ("--no-random",)),
    Exact("mixed precision", "jax", MIXED),
    Exact("evaluate and predict", "torch", LOOKED_AT),
    Exact("unstable training", "jax", UNSTABLE),
)
