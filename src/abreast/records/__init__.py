"""Image records: pack a source of images once, then read any sample by its number.

The public names. Only NumPy is imported with them; what `abreast[images]` brings is, when it is first needed.
"""

from abreast.records.decoding.crop import Box, Cut, cut
from abreast.records.decoding.decoder import decode, decode_crop
from abreast.records.loading.views import CenterCrop, RandomCrop
from abreast.records.packing.packer import pack
from abreast.records.packing.progress import Progress, Summary
from abreast.records.reading.extractor import extract
from abreast.records.reading.reader import Records, Sample
from abreast.records.reading.verifier import verify
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
