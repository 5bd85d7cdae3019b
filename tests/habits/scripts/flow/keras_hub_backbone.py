"""KerasHub: a small BERT classifier with random weights and no dropout, fine-tuned through LoRA."""

NEEDS = ("keras_hub",)

import keras
import keras_hub

from tests.habits.data import tokens

ids, y = tokens()
backbone = keras_hub.models.BertBackbone(
    vocabulary_size=20, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=12, max_sequence_length=7, dropout=0.0
)
backbone.enable_lora(2)
inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids != 0}
model = keras_hub.models.BertTextClassifier(backbone, num_classes=2, preprocessor=None, dropout=0.0)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(inputs, y.astype("int32"), epochs=1, batch_size=10, verbose=0)
result = {"history": history, "predict": model.predict(inputs, verbose=0)}
