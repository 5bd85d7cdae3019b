"""The script that runs one example: `play.py EXAMPLE OUTPUT still|random`, plainly by Python or placed by `abreast run`."""

import json
import re
import sys
import traceback
from pathlib import Path

import keras

from abreast.checking import changes
from tests.keras_examples import catalogue, stand_ins


def _source(path: str) -> str:
    """An example's text, with small sizes, and without its choice of a backend."""
    text = re.sub(r"^os(\.environ)?\[['\"]KERAS_BACKEND['\"]\].*$", "", Path(path).read_text(), flags=re.MULTILINE)
    for pattern, new in catalogue.edits(path):
        text = re.sub(pattern, new, text, flags=re.MULTILINE)
    return text


def _leave(output: str, recorder: stand_ins.Recorder, error: str | None) -> None:
    found = {"calls": recorder.calls, "warnings": recorder.warnings, "draws": sorted(recorder.draws), "error": error}
    Path(output).write_text(json.dumps(found))


if __name__ == "__main__":
    _path, _output, _mode = sys.argv[1:]
    _recorder = stand_ins.Recorder()
    stand_ins.install(_recorder, random_layers=_mode == "random")
    catalogue.prepare(_path)
    _text, _edited = _source(_path), Path.cwd() / Path(_path).name
    _edited.write_text(_text)  # TensorFlow reads the source of functions that it converts
    if keras.config.floatx() == "float64":
        changes.compute_in_float64()
    keras.utils.set_random_seed(1)
    try:
        exec(compile(_text, str(_edited), "exec"), globals())
        _leave(_output, _recorder, None)
    except BaseException as _error:
        _leave(_output, _recorder, "".join(traceback.format_exception_only(_error)).strip())
        raise
