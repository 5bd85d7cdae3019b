"""Lines for the user on stderr, beside a command's output, which is on stdout."""

from __future__ import annotations

import sys


def tell(text: str) -> None:
    """Print a line that begins with our name, at once."""
    print(f"abreast: {text}", file=sys.stderr, flush=True)
