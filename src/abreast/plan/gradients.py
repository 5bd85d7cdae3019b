"""Formats of gradients on the wire: full, in half precision, or compressed; their bytes, and the time to encode.

Sizes are exact; the passes over memory that encoding takes are assumptions, stated here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from abreast.errors import DataError

_KNOWN = "fp32, fp16, bf16, 1-bit, top-k:SHARE as top-k:0.01, powersgd:RANK as powersgd:4"


@dataclass(frozen=True)
class Format:
    """A format of gradients on the wire. `passes` counts reads and writes of the float32 gradient, to encode and decode it."""

    name: str
    passes: float = 0.0
    share: float = 1.0  # top-k: share of the values that is sent
    rank: int = 0  # PowerSGD

    @property
    def sparse(self) -> bool:
        return self.name == "top-k"

    def wire_bytes(self, num_values: float) -> float:
        """Bytes on the wire for one tensor of `num_values` values."""
        if self.name in ("fp16", "bf16"):
            return 2 * num_values
        if self.name == "1-bit":
            return num_values / 8 + 8
        if self.name == "top-k":
            return 8 * math.ceil(self.share * num_values)  # a value and its index
        if self.name == "powersgd":
            return 4 * min(num_values, self.rank * 2 * math.sqrt(num_values))  # the factors of a square matrix
        return 4 * num_values

    def encode_seconds(self, num_values: float, memory_bytes_per_second: float) -> float:
        return self.passes * 4 * num_values / memory_bytes_per_second


def parse_format(text: str) -> Format:
    """The format with this name on the command line."""
    name, _, argument = text.partition(":")
    plain = {
        "fp32": Format("fp32"),
        "fp16": Format("fp16", 1.5),
        "bf16": Format("bf16", 1.5),
        "1-bit": Format("1-bit", 5),
    }
    if name in plain and not argument:
        return plain[name]
    try:
        if name == "top-k":
            share = float(argument or 0.01)
            if 0 < share <= 1:
                return Format(name, 12, share=share)
        if name == "powersgd":
            rank = int(argument or 4)
            if rank >= 1:
                return Format(name, 6, rank=rank)
    except ValueError:
        pass
    raise DataError(f"gradients in {text!r}", f"one of {_KNOWN}")
