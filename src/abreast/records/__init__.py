"""Image records: pack a source of images once, then read any sample by its number.

`format/` is the layout of the files. `packing/` writes them, with items from the adapters in `sources/`; `reading/` reads
samples, `decoding/` turns them into pixels, and `loading/` into batches for training. `serving.py` does all of it for one image.
Imports between these packages point one way:
`serving -> loading, packing -> sources -> decoding -> reading -> format`.

The public names are here. They are imported when they are first used, so that the options of the commands load no
NumPy; the packages of `abreast[images]` are imported when the first image is encoded or decoded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abreast.records.decoding.crop import Box, Cut, cut
    from abreast.records.decoding.decoder import decode, decode_crop
    from abreast.records.loading.views import CenterCrop, RandomCrop
    from abreast.records.packing.packer import pack
    from abreast.records.packing.progress import Progress, Summary
    from abreast.records.reading.extractor import extract
    from abreast.records.reading.reader import Records, Sample
    from abreast.records.reading.verifier import verify
    from abreast.records.serving import view, view_settings
    from abreast.records.sources.source import Item

# A package here may not have the name of a function: its import would put it in the place of the function.
_HOMES = {
    "Box": "decoding.crop",
    "CenterCrop": "loading.views",
    "Cut": "decoding.crop",
    "Item": "sources.source",
    "Progress": "packing.progress",
    "RandomCrop": "loading.views",
    "Records": "reading.reader",
    "Sample": "reading.reader",
    "Summary": "packing.progress",
    "cut": "decoding.crop",
    "decode": "decoding.decoder",
    "decode_crop": "decoding.decoder",
    "extract": "reading.extractor",
    "pack": "packing.packer",
    "verify": "reading.verifier",
    "view": "serving",
    "view_settings": "serving",
}

__all__ = [
    "Box",
    "CenterCrop",
    "Cut",
    "Item",
    "Progress",
    "RandomCrop",
    "Records",
    "Sample",
    "Summary",
    "cut",
    "decode",
    "decode_crop",
    "extract",
    "pack",
    "verify",
    "view",
    "view_settings",
]


def _loaded(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


if not TYPE_CHECKING:  # with this function, a type checker would accept every name
    __getattr__ = _loaded


def __dir__() -> list[str]:
    return sorted(__all__)
