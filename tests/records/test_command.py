"""`abreast pack` and `abreast records`, as one types them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from abreast import cli
from abreast.checkpoints.write import write_checkpoint
from abreast.errors import DataError
from abreast.installing import install_command
from abreast.records import Item, Progress, Records, extract, pack
from abreast.records.format.manifest import bound, unbound
from abreast.records.loading import sheet
from abreast.records.packing.command import ProgressLine
from abreast.records.reading import extractor
from tests.checkpoints.samples import small
from tests.records.pieces import class_folder, contents, items, photo, small_pack


def abreast(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_folder_is_packed_and_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, dest = class_folder(tmp_path / "in"), tmp_path / "out"
    code, out, err = abreast(
        capsys, "pack", source, dest, "--size", 32, "--quality", 90, "--threads", 2, "--shard_mb", 1
    )
    assert (code, err) == (0, "")
    assert out.startswith(f"{dest}: 8 images in 1 shard, 0.")
    assert "packed 8 in" in out and "images/s" in out
    code, out, _ = abreast(capsys, "records", "info", dest)
    assert code == 0
    assert "8 jpg; 8 with restart markers" in out
    assert "label (int64)" in out and "2: cat 4, dog 4\n" in out and "quality 90" in out
    code, out, _ = abreast(capsys, "records", "info", "--json", dest)
    assert json.loads(out)["class_names"] == ["cat", "dog"]


def test_info_has_words_for_settings_and_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = np.zeros((6, 8, 8, 3), np.uint8)
    source = {
        "image": images,
        "animal": ["owl", "fox"] * 3,
        "place": ["a", "b"] * 3,
        "box": np.zeros((6, 4), np.float32),
    }
    pack(source, tmp_path / "words", columns="animal,box")
    pack(source, tmp_path / "parts", label="animal,place", split={"train": 0.5, "val": 0.5}, split_seed=1)
    words, part = (abreast(capsys, "records", "info", tmp_path / name)[1] for name in ("words", "parts/train"))
    assert "no names; targets='animal' numbers the words of animal\n" in words
    assert "animal (text), box (float32, 4)" in words and "columns animal=animal box=box, " in words
    assert "label animal place, " in part and "split train of train=0.5 val=0.5 (split_seed 1)" in part
    for shown in (words, part):
        settings = next(line for line in shown.splitlines() if line.startswith("settings"))
        assert not {"[", "]", "'", "None"} & {*settings} and "None" not in settings


def test_control_characters_in_names_do_not_reach_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_pack(tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    names = ["\x1b]0;owned\x07", "\x9b2J", "a\u202eb", "é"]
    path.write_bytes(bound(unbound(path.read_bytes(), path) | {"class_names": names}))
    code, out, _ = abreast(capsys, "records", "info", tmp_path / "out")
    assert code == 0 and "4: \\x1b]0;owned\\x07 3, \\x9b2J 2, a\\u202eb 2, é 0\n" in out
    _, _, err = abreast(capsys, "records", "info", "\x1b[2Jfolder")
    assert "\\x1b[2Jfolder holds no packed images" in err and "\x1b" not in err


def test_verify_names_damaged_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_pack(tmp_path / "out")
    assert abreast(capsys, "records", "verify", tmp_path / "out") == (
        0,
        f"{tmp_path / 'out'}: every byte is as it was written\n",
        "",
    )
    tar = tmp_path / "out" / "shard-00001.tar"
    data = bytearray(tar.read_bytes())
    data[700] ^= 1
    tar.write_bytes(data)
    code, out, _ = abreast(capsys, "records", "verify", tmp_path / "out")
    assert code == 1
    assert "shard-00001.tar is not the one in manifest.json" in out and "sample 2 (group/002)" in out
    (tmp_path / "out" / "manifest.json").unlink()
    assert abreast(capsys, "records", "verify", tmp_path / "out")[0] == 1


def test_verify_of_something_else_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path, tmp_path / "typo"):
        code, out, err = abreast(capsys, "records", "verify", folder)
        assert (code, out) == (2, "")
        assert f"{folder} holds no packed images\nhint: name a folder" in err


@pytest.mark.parametrize("action", ["info", "verify"])
def test_a_folder_of_checkpoints_is_no_data_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    write_checkpoint(tmp_path, "fit0001", small())
    code, _, err = abreast(capsys, "records", action, tmp_path)
    assert code == 2 and f"{tmp_path} holds no packed images" in err and "parts" not in err
    small_pack(tmp_path / "both" / "train")
    write_checkpoint(tmp_path / "both", "a", small())
    code, _, err = abreast(capsys, "records", action, tmp_path / "both")
    assert code == 2 and f"hint: name one of its parts: {tmp_path / 'both' / 'train'}" in err


def test_extract_gives_files_and_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_pack(tmp_path / "out", storage="png")
    code, out, _ = abreast(capsys, "records", "extract", tmp_path / "out", tmp_path / "files")
    assert (code, out) == (0, f"{tmp_path / 'files'}: 7 images\n")
    lines = [json.loads(line) for line in (tmp_path / "files" / "samples.jsonl").read_text().splitlines()]
    assert lines[1]["file"] == "group/001.png"
    assert lines[1]["columns"] == {"label": 1, "boxes": [[0.0, 1.0, 2.0, 3.0]], "text": "Bild 1 ä"}
    with Records(tmp_path / "out") as records:
        files = contents(tmp_path / "files")
        assert all(files[line["file"]] == bytes(sample.data) for line, sample in zip(lines, records, strict=True))


def test_extracted_files_can_be_packed_again(tmp_path: Path) -> None:
    class_folder(tmp_path / "in")
    pack(tmp_path / "in", tmp_path / "one", storage="keep")
    extract(tmp_path / "one", tmp_path / "files")
    pack(tmp_path / "files", tmp_path / "two", storage="keep")
    tar = "shard-00000.tar"
    assert (tmp_path / "one" / tar).read_bytes() == (tmp_path / "two" / tar).read_bytes()


def test_extract_does_not_write_over_or_through_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_pack(tmp_path / "out")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "mine").write_text("mine")
    code, _, err = abreast(capsys, "records", "extract", tmp_path / "out", tmp_path / "files")
    assert code == 2 and "not an empty folder" in err
    assert contents(tmp_path / "files") == {"mine": b"mine"}


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("fails", ["damage", "disk", "interrupt"])
def test_extract_that_fails_leaves_nothing(
    tmp_path: Path, there: bool, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_pack(tmp_path / "out")
    target = tmp_path / "new" / "files"
    if there:
        target.mkdir(parents=True)
    error: type[BaseException] = DataError
    if fails == "damage":
        tar = tmp_path / "out" / "shard-00001.tar"
        tar.write_bytes(tar.read_bytes().replace(b"NUMPY", b"NUMPX"))
    else:
        error = KeyboardInterrupt if fails == "interrupt" else DataError
        raised = KeyboardInterrupt() if fails == "interrupt" else OSError(28, "No space left on device", "x")
        new_file, calls = extractor._new_file, []

        def failing(path: Path) -> object:
            calls.append(path)
            if len(calls) == 5:
                raise raised
            return new_file(path)

        monkeypatch.setattr(extractor, "_new_file", failing)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(error):
        extract(tmp_path / "out", target)
    assert sorted(tmp_path.rglob("*")) == before
    assert target.exists() == there


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    columns = {"x": float("nan"), "v": np.array([1, np.inf], np.float32)}
    pack([Item("a", photo(4, 4), columns)], tmp_path / "out", storage="raw")
    extract(tmp_path / "out", tmp_path / "files")
    line = json.loads((tmp_path / "files" / "samples.jsonl").read_text(), parse_constant=refuse)
    assert line["columns"] == {"x": None, "v": [1.0, None]}
    with tarfile.open(tmp_path / "out" / "shard-00000.tar") as tar:
        member = tar.extractfile("a.json")
        assert member is not None and json.loads(member.read(), parse_constant=refuse) == {"x": None}
    with Records(tmp_path / "out") as records:
        assert np.isnan(records[0].columns["x"])


def test_ctrl_c_is_answered_with_the_way_to_continue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("abreast.records.packing.packer.pack", interrupted)
    code, out, err = abreast(capsys, "pack", tmp_path, tmp_path / "out")
    assert (code, out) == (130, "")
    assert err == "abreast: stopped\nhint: run the same command again to continue after the last whole shard\n"


def test_a_source_is_split_and_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, dest = class_folder(tmp_path / "in", per_class=10), tmp_path / "out"
    code, out, _ = abreast(capsys, "pack", source, dest, "--split", "train=0.8,val=0.2", "--split-seed", 3)
    assert code == 0
    assert f"{dest / 'train'}: " in out and f"{dest / 'val'}: " in out
    code, out, err = abreast(capsys, "records", "info", dest)
    assert (
        code == 2
        and f"{dest} is not one data set: it has the parts train, val\nhint: name one of its parts: {dest / 'train'}"
        in err
    )


def test_columns_are_chosen_and_renamed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class_folder(tmp_path)
    (tmp_path / "t.csv").write_text("path,a,b\ncat/0.jpg,1,x\ndog/0.jpg,2,y\n")
    code, _, _ = abreast(capsys, "pack", tmp_path / "t.csv", tmp_path.with_name("chosen"), "--columns", "label=a")
    assert code == 0
    with Records(tmp_path.with_name("chosen")) as records:
        assert [dict(sample.columns) for sample in records] == [{"label": 1}, {"label": 2}]
    code, _, err = abreast(capsys, "pack", tmp_path / "t.csv", tmp_path.with_name("other"), "--columns", "c")
    assert code == 2 and "there is no column 'c'\nhint: there are: a, b" in err
    code, _, err = abreast(capsys, "pack", tmp_path / "t.csv", tmp_path.with_name("other"), "--image", "path")
    assert code == 2 and "hint: leave image (--image) out" in err


def test_an_error_is_a_line_and_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = abreast(capsys, "pack", tmp_path / "nothing", tmp_path / "out")
    assert (code, out) == (2, "")
    hint = "give a folder of images, or a file that lists or holds them"
    assert err == f"abreast: error: there is no {tmp_path / 'nothing'}\nhint: {hint}\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--threads 0", "--threads 0 is not allowed\nhint: give a number above 0"),
        ("--shard-mb -1", "--shard-mb -1 is not allowed\nhint: give a number above 0"),
        ("--shard-mb inf", "--shard-mb inf is not allowed\nhint: give a number above 0"),
        ("--class-names names.txt", "--class-names means nothing without --label\nhint: add --label NAMES"),
        ("--label-separator +", "--label-separator means nothing without --label\nhint: add --label NAMES"),
        ("--split-by label", "--split-by means nothing without --split\nhint: add --split PARTS"),
    ],
)
def test_an_option_that_is_not_allowed_is_named_as_it_is_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, message: str
) -> None:
    code, out, err = abreast(capsys, "pack", class_folder(tmp_path / "in"), tmp_path / "out", *options.split())
    assert (code, out) == (2, "") and err.startswith(f"abreast: error: {message}")
    assert not (tmp_path / "out").exists()


def test_skipped_images_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = class_folder(tmp_path / "in")
    (source / "cat" / "x.jpg").write_bytes(b"no image")
    code, out, _ = abreast(capsys, "pack", source, tmp_path / "out", "--on-error", "skip")
    assert code == 0
    assert "skipped: 1\n" in out and f"  {source / 'cat' / 'x.jpg'}: cannot read the image: not an image" in out


def test_a_line_of_progress_changes_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ProgressLine()
    line.show(Progress(1, 1, 2, 0, 1.0))
    line.show(Progress(2, 2, 2, 0, 11.0))
    line.end()
    assert capsys.readouterr().err == "abreast: 2 of 2 images, 0 images/s, 0.0 s left\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    line = ProgressLine()
    line.show(Progress(10, 10, 20, 0, 1.0))
    line.show(Progress(2, 2, 2, 0, 1.0))
    line.end()
    first, second = capsys.readouterr().err.strip("\r\n").split("\r")
    assert len(first) == len(second) and second.rstrip() == "2 of 2 images, 2 images/s, 0.0 s left"


def test_importing_records_loads_no_decoder(tmp_path: Path) -> None:
    import subprocess
    import sys

    script = (
        "import abreast.records, sys\n"
        "print([m for m in ('PIL', 'cv2', 'simplejpeg', 'google_crc32c', 'keras') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    np.save(tmp_path / "unused.npy", photo(2, 2))
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    code, _, err = abreast(capsys, "pack", class_folder(tmp_path / "in"), tmp_path / "out")
    assert code == 2 and f"hint: {install_command('images')}" in err
    assert len(items(2)) == 2


def pixels_of(sheet: Path) -> npt.NDArray[np.uint8]:
    with Image.open(sheet) as image:
        return np.asarray(image)


def test_a_sheet_shows_the_key_and_the_label_of_each_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line of text is inside of its own place; the words are those that are drawn."""
    drawn: list[str] = []
    draw = sheet._draw

    def noted(onto: object, text: str, *place: int) -> None:
        drawn.append(text)
        draw(onto, text, *place)

    monkeypatch.setattr(sheet, "_draw", noted)
    pack(class_folder(tmp_path / "in", per_class=2), tmp_path / "out")
    assert sheet.write_sheet(tmp_path / "out", tmp_path / "sheet.png", size=64) == 4
    assert sorted(zip(drawn[::2], drawn[1::2], strict=True)) == [
        ("cat/0", "cat"),
        ("cat/1", "cat"),
        ("dog/0", "dog"),
        ("dog/1", "dog"),
    ]
    pixels = pixels_of(tmp_path / "sheet.png")
    assert pixels.shape == (64 + 2 * 14 + 8, 4 * 68 + 4, 3)
    assert (pixels[68:96] < 100).any() and (pixels[96:] == 255).all()  # text below the pictures


@pytest.mark.parametrize(
    ("value", "names", "said"),
    [
        (1, ["cat", "dog"], "dog"),
        (7, ["cat", "dog"], "7"),
        (1.5, None, "1.5"),
        ([1, 0, 0.5], ["a", "b", "c"], "a, c 0.5"),
        ([1, 2], None, "[1, 2]"),
        ("w\x1b", None, "w\\x1b"),
    ],
)
def test_a_label_is_shown_in_words(tmp_path: Path, value: object, names: list[str] | None, said: str) -> None:
    pack([Item("a", photo(8, 8), {"label": value})], tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    path.write_bytes(bound(unbound(path.read_bytes(), path) | {"class_names": names}))
    with Records(tmp_path / "out") as records:
        assert sheet._label(records, records[0]) == said


@pytest.mark.parametrize(
    ("columns", "label", "shown"),
    [
        ({"animal": "owl", "weight": 3}, None, "owl"),
        ({"animal": "owl", "place": "Bonn"}, None, ""),
        ({"animal": "owl", "place": "Bonn"}, "place", "Bonn"),
        ({"animal": "owl", "label": 3}, None, "3"),
        ({"animal": "owl", "label": 3}, "animal", "owl"),
    ],
)
def test_a_sheet_shows_a_column_of_words(
    tmp_path: Path,
    columns: dict[str, object],
    label: str | None,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(sheet, "_draw", lambda onto, text, *place: drawn.append(text))
    pack([Item("a", photo(8, 8), columns)], tmp_path / "out")
    arguments = [] if label is None else ["--label", label]
    code, _, err = abreast(capsys, "records", "show", tmp_path / "out", "-o", tmp_path / "s.png", *arguments)
    assert code == 0 and drawn == ["a", shown]
    assert ("hint: --label animal shows that one" in err) == (shown == "")


def test_a_sheet_of_an_unknown_column_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack([Item("a", photo(8, 8), {"animal": "owl"})], tmp_path / "out")
    code, _, err = abreast(capsys, "records", "show", tmp_path / "out", "--label", "animl")
    assert code == 2 and "has no column 'animl'\nhint: did you mean 'animal'? columns: animal\n" in err


def test_a_long_key_is_shown_by_its_ends(tmp_path: Path) -> None:
    pack([Item("a" * 100 + str(i), photo(8, 8), {}) for i in range(2)], tmp_path / "out")
    sheet.write_sheet(tmp_path / "out", tmp_path / "sheet.png", size=32)
    pixels = pixels_of(tmp_path / "sheet.png")
    assert (pixels[:, 36:40] == 255).all() and (pixels[36:50, 4:36] < 128).any()


def test_show_writes_a_picture_of_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack([photo(40, 60, seed=i) for i in range(9)], tmp_path / "out")
    sheet = tmp_path / "sheet.png"
    assert abreast(capsys, "records", "show", tmp_path / "out", "-o", sheet, "--augment") == (
        0,
        f"{sheet}: 6 samples\n",
        "",
    )
    pixels = pixels_of(sheet)
    assert pixels.shape == (6 * 160 + 4, 8 * 132 + 4, 3)
    assert (pixels[:4] == 255).all() and len(np.unique(pixels[4:132, 4:132])) > 100
    first, second = (pixels[4:132, 4 + 132 * i : 132 + 132 * i] for i in (1, 2))
    assert (first != second).any()
    arguments = ("-o", sheet, "--count", 8, "--size", 32)
    assert abreast(capsys, "records", "show", tmp_path / "out", *arguments)[1] == f"{sheet}: 8 samples\n"
    assert pixels_of(sheet).shape == (2 * 64 + 4, 6 * 36 + 4, 3)
    code, _, err = abreast(capsys, "records", "show", tmp_path / "out", "--count", 0)
    assert code == 2 and "--count 0 is not allowed\nhint: give a number above 0" in err
    code, _, err = abreast(capsys, "records", "show", tmp_path / "out", "--size", 8)
    assert code == 2 and "--size 8 is not allowed\nhint: give 16 to 2048 pixels" in err
    code, _, err = abreast(capsys, "records", "show", tmp_path / "out", "-o", tmp_path / "no" / "sheet.png")
    assert code == 2 and "cannot write" in err and "hint: name a file such as sheet.png" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("pack", "{long}", "{out}"),
        ("pack", "{in}", "{long}"),
        ("pack", "{in}", "{long}", "--split", "a=0.5,b=0.5"),
        ("records", "info", "{long}"),
        ("records", "show", "{long}"),
        ("records", "verify", "{long}"),
        ("records", "extract", "{long}", "{out}"),
        ("records", "extract", "{packed}", "{long}"),
    ],
)
def test_a_path_that_the_system_refuses_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    small_pack(tmp_path / "packed")
    paths = {
        "long": tmp_path / ("x" * 300),
        "in": class_folder(tmp_path / "in"),
        "out": tmp_path / "out",
        "packed": tmp_path / "packed",
    }
    before = sorted(tmp_path.rglob("*"))
    code, out, err = abreast(capsys, *(each.format(**paths) for each in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("abreast: error: cannot ") and f"{paths['long']}" in err and "File name too long" in err
    assert sorted(tmp_path.rglob("*")) == before


def test_names_outside_utf8_are_printed(tmp_path: Path) -> None:
    import subprocess
    import sys

    small_pack(tmp_path / "one")
    dest = bytes(tmp_path / "two") + b"\xff"
    command: list[str | bytes] = [
        sys.executable,
        "-m",
        "abreast",
        "pack",
        str(tmp_path / "one"),
        dest,
        "--storage",
        "png",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and "two\\udcff: 7 images" in done.stdout


def test_control_characters_are_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = class_folder(tmp_path / "in")
    (source / "cat" / "a\n\x1b[31m.jpg").write_bytes(b"no image")
    code, _, err = abreast(capsys, "pack", source, tmp_path / "out")
    assert code == 2 and "cat/a\\n\\x1b[31m.jpg (number 4 of the source, from 0): cannot read" in err
    assert err.count("\n") == 2


def test_the_reader_of_the_output_may_stop(tmp_path: Path) -> None:
    """`abreast records info DEST | head -1`, and a stdout on a full disk."""
    import os
    import subprocess
    import sys

    small_pack(tmp_path / "out")
    command = [sys.executable, "-m", "abreast", "records", "verify", str(tmp_path / "out")]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("abreast: error: cannot write to stdout: No space left on device\nhint: ")


@pytest.mark.parametrize(
    ("source", "dest", "why"),
    [
        ("", "{out}", "the source has no name"),
        ("{in}", "", "the folder to make has no name"),
        ("https://example.org/a.tar", "{out}", "https://example.org/a.tar is not a path\nhint: copy it"),
        ("s3://bucket/a.tar", "{out}", "s3://bucket/a.tar is not a path\nhint: copy it"),
    ],
)
def test_an_invalid_path_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    dest: str,
    why: str,
) -> None:
    """A variable of the shell that is not set would be the present folder."""
    class_folder(tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    paths = {"in": tmp_path / "in", "out": tmp_path / "out"}
    code, _, err = abreast(capsys, "pack", source.format(**paths), dest.format(**paths))
    assert code == 2 and why in err
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
