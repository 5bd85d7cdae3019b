"""Metrics: AUC, precision, recall, F1, top-k, R2, mean IoU, a function of one's own, and `Mean` over a wrapper."""

import keras

from tests.habits.data import classification


def entropy(y_true, y_pred):
    return -keras.ops.sum(y_pred * keras.ops.log(y_pred + 1e-7), axis=-1)


x, y = classification()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax")])
model.compile(
    "adam",
    "categorical_crossentropy",
    metrics=[
        "accuracy",
        keras.metrics.AUC(num_thresholds=20),
        keras.metrics.Precision(),
        keras.metrics.Recall(class_id=1),
        keras.metrics.F1Score(average="macro"),
        keras.metrics.TopKCategoricalAccuracy(2),
        keras.metrics.R2Score(),
        keras.metrics.OneHotMeanIoU(3),
        entropy,
    ],
)
history = model.fit(x, keras.utils.to_categorical(y, 3), epochs=2, batch_size=10, validation_split=0.3, verbose=0)
result = {"history": history}
