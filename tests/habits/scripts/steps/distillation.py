"""A student learns from a teacher by `compute_loss`."""

import keras

from tests.habits.data import classification


class Distiller(keras.Model):
    def __init__(self, student, teacher, alpha=0.3, temperature=3.0):
        super().__init__()
        self.student, self.teacher, self.alpha, self.temperature = student, teacher, alpha, temperature

    def call(self, inputs):
        return self.student(inputs)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        own = super().compute_loss(x, y, y_pred, sample_weight)
        soft = keras.ops.softmax(self.teacher(x, training=False) / self.temperature)
        learned = keras.ops.log_softmax(y_pred / self.temperature)
        distance = -keras.ops.mean(keras.ops.sum(soft * learned, axis=-1))
        return self.alpha * own + (1 - self.alpha) * distance


x, y = classification()
teacher = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(3)])
teacher.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
teacher.fit(x, y, epochs=2, batch_size=16, verbose=0)
teacher.trainable = False
student = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
model = Distiller(student, teacher)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"student": student, "history": history, "evaluate": model.evaluate(x, y, verbose=0)}
