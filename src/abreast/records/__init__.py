"""Image records: pack a source of images once, then read any sample by its number.

The public names. Only NumPy is imported with them; what `abreast[images]` brings is, when it is first needed.
"""

from abreast.records.crop import Box, Cut, cut
from abreast.records.decoder import decode, decode_crop
from abreast.records.extractor import extract
from abreast.records.packer import pack
from abreast.records.progress import Progress, Summary
from abreast.records.reader import Records, Sample
from abreast.records.sources.source import Item
from abreast.records.verifier import verify
from abreast.records.views import CenterCrop, RandomCrop

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
]
