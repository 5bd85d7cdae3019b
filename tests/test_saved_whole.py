"""Which calls of `save` and `save_weights` write a file beside the one that is named, and then rename it."""

from __future__ import annotations

from pathlib import Path

from tests.harness.client import Workers


def find_beside(folder: str) -> dict[str, bool]:
    """In a worker: for each call, whether Keras was given another file than the named one, and the named one has its content."""

    from abreast.together.saving import _whole

    def beside(name: str, *arguments: object, **named: object) -> bool:
        given = []

        def plain(model: object, filepath: str, *arguments: object, **named: object) -> None:
            given.append((filepath, arguments, named))
            Path(filepath).write_text("whole")

        target = Path(folder) / name
        _whole(plain)(None, target, *arguments, **named)
        assert target.read_text() == "whole" and len(list(Path(folder).iterdir())) == 1
        target.unlink()
        ((path, *said),) = given
        assert said == [arguments, named]
        return Path(path) != target

    return {
        "plain": beside("a.keras"),
        "overwrite": beside("a.keras", True),
        "without optimizer": beside("a.h5", include_optimizer=False),
        "format": beside("a.h5", save_format="h5"),
        "zipped": beside("a.keras", zipped=True),
        "other ending": beside("a.hdf5"),
        "asks": beside("a.keras", overwrite=False),
        "a folder": beside("a.keras", zipped=False),
        "parts": beside("a.weights.h5", True, 1),
    }


def test_files_that_keras_writes_whole_are_written_beside(workers: Workers, tmp_path: Path) -> None:
    found = workers.abreast.run(find_beside, folder=str(tmp_path))
    assert [name for name, beside in found.items() if not beside] == ["asks", "a folder", "parts"]
