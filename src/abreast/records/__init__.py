"""Image records: pack a source of images once, then read any sample by its number.

The public names. Only NumPy is imported with them; what `abreast[images]` brings is, when it is first needed.
"""

from abreast.records.decode.crop import Box, Cut, cut
from abreast.records.decode.decoder import decode, decode_crop
from abreast.records.pack.packer import pack
from abreast.records.pack.progress import Progress, Summary
from abreast.records.read.extractor import extract
from abreast.records.read.reader import Records, Sample
from abreast.records.read.verifier import verify
from abreast.records.read.views import CenterCrop, RandomCrop
from abreast.records.sources.source import Item

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
