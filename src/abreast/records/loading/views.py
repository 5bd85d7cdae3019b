"""The part of each image that a batch shows, and whether it is mirrored: random for training, the centre for evaluation.

Views are computed for many images at once, from the random numbers of `draws`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError
from abreast.records.loading.draws import Draws

_TRIES = 10

Sizes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Views:
    """The views of some images. `boxes`: images by left, top, width and height, in pixels. `flips`: True if mirrored."""

    boxes: Sizes
    flips: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RandomCrop:
    """A random part of each image, mirrored with probability 1/2: for training.

    As GoogLeNet was trained (Szegedy et al., CVPR 2015): area, logarithm of the ratio, and place are uniform. If none of ten
    draws fits into the image, the largest part with an allowed ratio is taken.

    Args:
        scale: the smallest and the largest area, as shares of the image's, from 0 to 1.
        ratio: the smallest and the largest width over height.
        flip: False mirrors no image.

    Raises:
        DataError: a range is empty or out of bounds.

    Example:
        >>> from abreast.records import RandomCrop
        >>> RandomCrop(scale=(0.3, 1), flip=False)  # for `ImageRecords(..., augment=...)`
        RandomCrop(scale=(0.3, 1.0), ratio=(0.75, 1.3333333333333333), flip=False)
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True

    num_draws: ClassVar[int] = 2 * _TRIES + 3

    def __post_init__(self) -> None:
        scale, ratio = _floats(self.scale), _floats(self.ratio)
        if len(scale) != 2 or not 0 < scale[0] <= scale[1] <= 1:
            raise DataError(
                f"scale={self.scale} is not allowed",
                "give the smallest and the largest share of the area, as (0.08, 1)",
            )
        if len(ratio) != 2 or not 0 < ratio[0] <= ratio[1] < math.inf:
            raise DataError(
                f"ratio={self.ratio} is not allowed",
                "give the smallest and the largest width over height, as (3/4, 4/3)",
            )
        # Equal crops have the same `repr`, which a saved state contains.
        for name, value in {"scale": scale, "ratio": ratio, "flip": bool(self.flip)}.items():
            object.__setattr__(self, name, value)

    def views(self, heights: Sizes, widths: Sizes, size: tuple[int, int], draws: Draws) -> Views:
        """A view of each of `n` images.

        Args:
            heights: heights of the images in pixels, shape (n,).
            widths: their widths, shape (n,).
            size: height and width of the batch's images; not used here.
            draws: random numbers from 0 to 1, shape (n, `num_draws`).

        Example:
            >>> import numpy as np
            >>> from abreast.records import RandomCrop
            >>> crop, sides = RandomCrop(), np.array([480, 640])
            >>> crop.views(sides, sides, (224, 224), np.full((2, crop.num_draws), 0.5)).boxes.shape
            (2, 4)
        """
        wide, tall = self._drawn(heights, widths, draws[:, :_TRIES], draws[:, _TRIES : 2 * _TRIES])
        left = (draws[:, -3] * (widths - wide + 1)).astype(np.int64)
        top = (draws[:, -2] * (heights - tall + 1)).astype(np.int64)
        boxes = np.stack([left, top, wide, tall], axis=1)
        return Views(boxes, (draws[:, -1] < 0.5) & self.flip)

    def _drawn(self, heights: Sizes, widths: Sizes, areas: Draws, ratios: Draws) -> tuple[Sizes, Sizes]:
        """Width and height of the first try that fits into each image, or of the largest part if none fits."""
        low, high = np.log(self.ratio)
        area = (heights * widths)[:, None] * (self.scale[0] + areas * (self.scale[1] - self.scale[0]))
        ratio = np.exp(low + ratios * (high - low))
        # Columns are the tries, followed by the largest part.
        wide = np.rint(np.sqrt(area * ratio)).astype(np.int64)
        tall = np.rint(np.sqrt(area / ratio)).astype(np.int64)
        fits = (wide >= 1) & (wide <= widths[:, None]) & (tall >= 1) & (tall <= heights[:, None])
        first = np.where(fits.any(axis=1), fits.argmax(axis=1), _TRIES)
        widest = np.minimum(widths, np.rint(heights * self.ratio[1]).astype(np.int64))
        tallest = np.minimum(heights, np.rint(widths / self.ratio[0]).astype(np.int64))
        rows = np.arange(len(first))
        wide = np.column_stack([wide, np.maximum(widest, 1)])[rows, first]
        tall = np.column_stack([tall, np.maximum(tallest, 1)])[rows, first]
        return wide, tall


@dataclass(frozen=True)
class CenterCrop:
    """The centred part with the shape of the batch's images: for evaluation.

    This equals a resize of the short side to size / fraction, followed by a centre crop: 0.875 is 256 pixels, then 224.

    Args:
        fraction: sides of the part, as a share of the largest such part's, above 0 and up to 1.

    Raises:
        DataError: `fraction` is out of bounds.

    Example:
        >>> from abreast.records import CenterCrop
        >>> CenterCrop(1)  # for `ImageRecords(..., augment=...)`
        CenterCrop(fraction=1.0)
    """

    fraction: float = 0.875

    num_draws: ClassVar[int] = 0

    def __post_init__(self) -> None:
        fraction = _floats((self.fraction,))
        if not fraction or not 0 < fraction[0] <= 1:
            raise DataError(
                f"fraction={self.fraction} is not allowed",
                "give the visible fraction of the sides, above 0 and up to 1",
            )
        object.__setattr__(self, "fraction", fraction[0])

    def views(self, heights: Sizes, widths: Sizes, size: tuple[int, int], draws: Draws) -> Views:
        """A view of each of `n` images.

        Args:
            heights: heights of the images in pixels, shape (n,).
            widths: their widths, shape (n,).
            size: height and width of the batch's images.
            draws: not used here.

        Example:
            >>> import numpy as np
            >>> from abreast.records import CenterCrop
            >>> CenterCrop(1).views(np.array([480]), np.array([640]), (224, 224), np.empty((1, 0))).boxes.tolist()
            [[80, 0, 480, 480]]
        """
        scale = self.fraction * np.minimum(heights / size[0], widths / size[1])
        wide = np.clip(np.rint(scale * size[1]).astype(np.int64), 1, widths)
        tall = np.clip(np.rint(scale * size[0]).astype(np.int64), 1, heights)
        boxes = np.stack([(widths - wide) // 2, (heights - tall) // 2, wide, tall], axis=1)
        return Views(boxes, np.zeros(len(boxes), np.bool_))


def _floats(numbers: Any) -> tuple[float, ...]:
    """The numbers as Python's floats; empty if they are not numbers."""
    try:
        return tuple(float(number) for number in numbers)
    except (TypeError, ValueError):
        return ()
