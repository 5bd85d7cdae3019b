"""Which examples run, on which backends, and the sizes that are made small in their texts. Imports no framework."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.harness.client import BACKENDS
from tests.keras_examples import made_up

_ALL = BACKENDS
_TENSORFLOW = ("tensorflow",)
_SIZES = (
    (r"^(\s*)(batch_size|BATCH_SIZE) = (1[5-9]|[2-9]\d|\d{3,})\b", r"\1\2 = 14"),
    (r"^(\s*)((?:num_)?epochs|(?:NUM_)?EPOCHS) = \d+", r"\1\2 = 2"),
)


@dataclass(frozen=True)
class Example:
    """`name` is category and file; `edits` are pairs of a pattern of a line and its replacement."""

    name: str
    backends: tuple[str, ...] = _ALL
    edits: tuple[tuple[str, str], ...] = ()
    files: str | None = None  # what is made up before it starts


EXAMPLES = (
    Example("vision/mnist_convnet"),
    Example("vision/autoencoder"),
    Example("vision/knowledge_distillation"),
    Example("vision/siamese_contrastive", edits=((r"30000", "100"),)),
    # As published it compares labels with themselves in one dimension, and plain Keras refuses it.
    Example(
        "vision/supervised_contrastive_learning", edits=((r"ops\.squeeze\(labels\)", "ops.reshape(labels, (-1, 1))"),)
    ),
    Example(
        "vision/convmixer",
        edits=(
            (r"filters=256", "filters=16"),
            (r"depth=8", "depth=2"),
            (r"^visualization_plot\(.*$", ""),
            (r"^idx = 26", "idx = 5"),
        ),
    ),
    Example("vision/cct"),
    Example("vision/eanet", edits=((r"num_transformer_blocks = 8", "num_transformer_blocks = 2"),)),
    Example(
        "vision/mlp_image_classification",
        edits=((r"^num_blocks = 4", "num_blocks = 1"), (r"^embedding_dim = 256", "embedding_dim = 32")),
    ),
    Example(
        "vision/image_classification_with_vision_transformer",
        edits=(
            (r"^transformer_layers = 8", "transformer_layers = 2"),
            (r"^    2048,$", "    64,"),
            (r"^    1024,$", "    32,"),
        ),
    ),
    Example("vision/token_learner", edits=((r"^NUM_LAYERS = 4", "NUM_LAYERS = 2"), (r"40000", "100"))),
    Example(
        "vision/attention_mil_classification",
        edits=(
            (r"^BAG_COUNT = \d+", "BAG_COUNT = 40"),
            (r"^VAL_BAG_COUNT = \d+", "VAL_BAG_COUNT = 20"),
            (r"^ENSEMBLE_AVG_COUNT = \d+", "ENSEMBLE_AVG_COUNT = 1"),
        ),
    ),
    Example("vision/conv_lstm", edits=((r"filters=64", "filters=4"),)),
    Example(
        "vision/gradient_centralization",
        edits=((r"input_shape ?= ?\(300, 300, 3\)", "input_shape=(40, 40, 3)"), (r"^.*Conv2D\(.*64.*$", "")),
    ),
    Example("vision/learnable_resizer", edits=((r"\(300, 300\)", "(40, 40)"), (r"\(150, 150\)", "(32, 32)"))),
    Example(
        "vision/oxford_pets_image_segmentation",
        edits=(
            (r"^img_size = .*", "img_size = (32, 32)"),
            (r"max_dataset_len=1000", "max_dataset_len=40"),
            (r"val_samples = 1000", "val_samples = 20"),
        ),
        files="PetImages",
    ),
    Example(
        "vision/image_classification_from_scratch",
        edits=((r"^image_size = .*", "image_size = (32, 32)"), (r"\[256, 512, 728\]", "[16, 24]")),
        files="PetImages",
    ),
    Example(
        "generative/pixelcnn",
        edits=((r"^n_residual_blocks = 5", "n_residual_blocks = 1"), (r"filters=128", "filters=8")),
    ),
    Example(
        "generative/text_generation_with_miniature_gpt",
        edits=((r"^vocab_size = .*", "vocab_size = 60"), (r"^maxlen = .*", "maxlen = 20")),
        files="aclImdb",
    ),
    Example("nlp/addition_rnn", edits=((r"^TRAINING_SIZE = .*", "TRAINING_SIZE = 100"),)),
    Example("nlp/bidirectional_lstm_imdb", edits=((r"^maxlen = .*", "maxlen = 30"),)),
    Example("nlp/lstm_seq2seq", edits=((r"^latent_dim = .*", "latent_dim = 16"),)),
    Example(
        "nlp/neural_machine_translation_with_transformer",
        edits=(
            (r"^vocab_size = .*", "vocab_size = 100"),
            (r"^embed_dim = .*", "embed_dim = 16"),
            (r"^latent_dim = .*", "latent_dim = 32"),
        ),
    ),
    Example("structured_data/collaborative_filtering_movielens"),
    Example(
        "structured_data/deep_neural_decision_forests",
        edits=((r"^num_trees = 25", "num_trees = 4"), (r"^depth = 10", "depth = 4")),
    ),
    Example("structured_data/tabtransformer", edits=((r"^import keras$", "import keras, tensorflow as tf"),)),
    Example("timeseries/timeseries_anomaly_detection"),
    Example("timeseries/timeseries_classification_from_scratch"),
    Example(
        "timeseries/timeseries_classification_transformer",
        edits=((r"num_transformer_blocks=4", "num_transformer_blocks=1"),),
    ),
    Example("timeseries/timeseries_weather_forecasting"),
    Example("generative/vae", _TENSORFLOW),
    Example("generative/wgan_gp", _TENSORFLOW),
    Example("generative/lstm_character_level_text_generation", _ALL),
    Example("keras_recipes/antirectifier", _ALL),
    Example("keras_recipes/endpoint_layer_pattern", _TENSORFLOW),
    Example("keras_recipes/subclassing_conv_layers", _ALL),
    Example("keras_recipes/trainer_pattern", _TENSORFLOW),
    Example("keras_recipes/tensorflow_numpy_models", _TENSORFLOW),
    Example(
        "structured_data/imbalanced_classification",
        _ALL,
        ((r"/Users/fchollet/Downloads/creditcard.csv", "creditcard.csv"),),
        files="creditcard",
    ),
    Example("structured_data/structured_data_classification_from_scratch", _TENSORFLOW),
    Example("structured_data/structured_data_classification_with_feature_space", _TENSORFLOW),
    Example("nlp/pretrained_word_embeddings", _TENSORFLOW),
    Example("nlp/text_classification_from_scratch", _TENSORFLOW),
    Example("vision/cutmix", _TENSORFLOW),
    Example("vision/mixup", _TENSORFLOW),
    Example("vision/involution", _TENSORFLOW),
    Example("vision/metric_learning", _TENSORFLOW, ((r"num_batches=1000", "num_batches=5"),)),
    Example(
        "vision/perceiver_image_classification",
        _TENSORFLOW,
        (
            (r"^latent_dim = 256", "latent_dim = 16"),
            (r"^    256  # Embedding", "    16  # Embedding"),
            (r"^num_transformer_blocks = 4", "num_transformer_blocks = 1"),
        ),
    ),
    Example("vision/semantic_image_clustering", _TENSORFLOW),
    Example("vision/shiftvit", _TENSORFLOW),
    Example("vision/simsiam", _TENSORFLOW),
    Example("vision/swim_transformers", _TENSORFLOW, ((r"numerical_utils\.", ""),)),
)


# Examples and backends that differ, and why.
REASONS: dict[tuple[str, str], str] = {
    (
        "vision/learnable_resizer",
        "torch",
    ): "rounding that DenseNet121 makes large: in float64, the loss differs by 2e-12 in the "
    "first epoch, by 5e-8 in the second",
}


def find(folder: Path, name: str) -> Path | None:
    """An example's file in a clone of keras-io; its `examples` folder may have more levels."""
    return next(iter(sorted(folder.rglob(f"{name}.py"))), None)


def edits(path: str) -> tuple[tuple[str, str], ...]:
    return (*_SIZES, *_of(path).edits)


def prepare(path: str) -> None:
    """Write the files that an example expects in its folder."""
    needed = _of(path).files
    if needed is not None:
        made_up.get_file({"creditcard": "creditcard.csv"}.get(needed, needed))


def _of(path: str) -> Example:
    name = "/".join(Path(path).with_suffix("").parts[-2:])
    return next(example for example in EXAMPLES if example.name == name)
