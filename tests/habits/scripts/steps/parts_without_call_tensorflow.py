"""A model without `call`, whose steps call parts that were never built, and update the compiled metrics."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import classification


class Stages(keras.Model):
    def __init__(self):
        super().__init__()
        self.stages = [keras.layers.Dense(8, "relu"), keras.layers.BatchNormalization(), keras.layers.Dense(3)]

    def forward(self, data, training):
        x, y = data
        logits = self.stages[2](self.stages[1](self.stages[0](x), training=training))
        return self.compute_loss(x, y, logits), y, logits

    def logs(self, loss, y, logits):
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, logits)
        return {metric.name: metric.result() for metric in self.metrics}

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss, y, logits = self.forward(data, training=True)
        variables = [variable for stage in self.stages for variable in stage.trainable_variables]
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return self.logs(loss, y, logits)

    def test_step(self, data):
        return self.logs(*self.forward(data, training=False))


x, y = classification(rows=48)
model = Stages()
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.05), loss, metrics=["accuracy"])
history = model.fit(x, y, batch_size=16, epochs=2, validation_data=(x[:16], y[:16]), verbose=0)
result = {"history": history, "weights": [variable.numpy() for variable in model.variables]}
