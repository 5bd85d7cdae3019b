"""Arrays of the parts of images that a loader would show, made from the files with Pillow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from abreast.records import CenterCrop, RandomCrop
from abreast.records.loading.draws import permutation, uniforms


def epoch_of(loader: Any, files: Path, crop: RandomCrop, seed: int, epoch: int) -> tuple[Any, Any]:
    """Images and labels of an epoch of training."""
    order = permutation(seed, epoch, len(loader.records))
    draws = uniforms(seed, epoch, 0, len(order), crop.num_draws)
    return _arrays(loader, files, crop, order, draws)


def centres(loader: Any, files: Path) -> tuple[Any, Any]:
    """Images and labels to evaluate on."""
    return _arrays(loader, files, CenterCrop(), np.arange(len(loader.records)), np.empty((0, 0)))


def _arrays(loader: Any, files: Path, view: Any, order: Any, draws: Any) -> tuple[Any, Any]:
    samples = [loader.records[number] for number in order.tolist()]
    heights, widths = (np.array([getattr(sample, name) for sample in samples]) for name in ("height", "width"))
    size = loader[0][0].shape[1:3]
    views = view.views(heights, widths, size, draws)
    images = [
        _shown(files / f"{sample.key}.jpg", box, flip, size)
        for sample, box, flip in zip(samples, views.boxes.tolist(), views.flips.tolist(), strict=True)
    ]
    return np.stack(images), np.array([sample.columns["label"] for sample in samples])


def _shown(path: Path, box: tuple[int, int, int, int], flip: bool, size: tuple[int, int]) -> Any:
    left, top, width, height = box
    image = Image.open(path).convert("RGB")
    made = image.resize(size[::-1], Image.Resampling.BILINEAR, (left, top, left + width, top + height))
    return np.asarray(made)[:, ::-1] if flip else np.asarray(made)
