"""The process of one part: `python -m benchmarks.gpu.body BODY PLACE RESULT` runs a body and writes its result to a file."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.gpu.place import Found, Missing, Place


def main(body: str, place: str, result: str) -> int:
    """Write the result as JSON; the exit code is 1 if the body raised."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    outcome = outcome_of(body, Place(**json.loads(place)))
    Path(result).write_text(json.dumps(outcome))
    return 1 if "error" in outcome else 0


def _end_with_parent() -> None:
    """When stdin ends, end this process and all that it started: the process that waits for the result is gone."""
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def outcome_of(body: str, place: Place) -> dict[str, Any]:
    """The fields of `Found`, or a text as `missing` or `error`."""
    module, _, function = body.partition(":")
    try:
        found: Found = getattr(importlib.import_module(module), function)(place)
    except Missing as missing:
        return {"missing": str(missing)}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {str(error).strip()[:500]}"}
    return asdict(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
