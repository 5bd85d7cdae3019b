"""What a notebook and the interpreter show of our objects: one line as `repr`, and a little HTML without script."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast import notebook
from abreast.doctor.diagnosis import Diagnosis
from abreast.doctor.report import report
from abreast.records import Records, pack
from abreast.timeline.step_summary import summarize
from abreast.timeline.step_table import STEP
from tests.doctor.diagnoses import PLANTED, starving
from tests.harness.client import Workers

_TAGS = {"b", "div", "p", "table", "td", "th", "tr"}


class _Reader(HTMLParser):
    """Collects texts and tags, and checks that tags are closed in turn and have no attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.opened: list[str] = []
        self.feed(html)
        self.close()
        assert self.opened == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS and not attributes
        self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def texts_of(html: str, most_bytes: int = 4000) -> list[str]:
    assert len(html.encode()) < most_bytes
    return _Reader(html).texts


def test_texts_of_users_do_not_become_markup() -> None:
    html = notebook.shown(PLANTED, {PLANTED: PLANTED}, [PLANTED], [[PLANTED]])
    assert sum("<script>" in text for text in texts_of(html)) == 5
    assert "<script" not in html


def test_half_a_surrogate_pair_can_be_sent_to_a_browser() -> None:
    assert texts_of(notebook.shown("half \ud800 of a pair", {})) == ["half ? of a pair"]


def test_long_texts_and_tables_are_cut() -> None:
    texts = texts_of(notebook.shown("long", {"text": "x" * 1000}, ["row"], [[number] for number in range(1000)]))
    assert "x" * 500 + "…" in texts and "19" in texts and "20" not in texts
    assert texts[-1] == "and 980 more"


def test_a_packed_data_set_and_its_summary(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), np.uint8)
    folder = tmp_path / "a<b.pack"
    columns = {"image": images, "label": np.arange(3), "name": ["one", "two", "three"]}
    summary = pack(columns, folder)
    assert repr(summary).startswith(f"<Summary of {folder}: 3 images in 1 shard, 0.0 MB, 0 skipped")
    texts = texts_of(summary._repr_html_())
    assert texts[0] == f"Summary of {folder}" and "3 images in 1 shard, 0.0 MB" in texts
    with Records(folder) as records:
        assert repr(records) == f"<Records {folder}: 3 samples in 1 shard, columns: label, name>"
        texts = texts_of(records._repr_html_())
    assert texts[0] == f"Records {folder}"
    assert " ".join(texts).endswith("column type label int64 name text")


def test_a_summary_lists_parts_and_skipped_images(tmp_path: Path) -> None:
    images = [np.zeros((8, 8, 3), np.uint8) for _ in range(20)]
    summary = pack([*images, b"bad"], tmp_path / "out", on_error="skip")
    assert "1 skipped" in repr(summary)
    assert "skipped" in texts_of(summary._repr_html_())
    parts = pack((np.stack(images), np.arange(20)), tmp_path / "parts", split={"train": 0.5, "val": 0.5})
    assert {"part train", "part val"} <= set(texts_of(parts._repr_html_()))


def test_a_diagnosis() -> None:
    diagnosis = starving()
    assert len(repr(diagnosis)) < 150 and "slow-source, float32-input" in repr(diagnosis)
    assert str(diagnosis) == report(diagnosis)
    texts = texts_of(diagnosis._repr_html_())
    assert "slow-source" in texts and "38.2 ms" in texts
    healthy = Diagnosis("net", "jax", ("cpu:0",), 64, 30, 0.04, {"computing": 0.04}, ())
    assert repr(healthy) == "<Diagnosis of net: 40.0 ms a step, nothing found>"
    assert "cause" not in texts_of(healthy._repr_html_())


def test_a_summary_of_a_timeline() -> None:
    steps = np.zeros(3, STEP)
    steps["wall"], steps["wait"], steps["compute"], steps["rows"], steps["batches"] = 0.1, 0.04, 0.06, 32, 1
    history = {f"{name}_seconds": [0.0] for name in ("total", "validation", "epoch")}
    summary = summarize(
        steps, np.zeros((3, 1)), ["cpu:0"], history, warm_up_steps=1, all_reduce_told=False, notes=[PLANTED]
    )
    texts = texts_of(summary._repr_html_())
    assert texts[0] == "Timeline: 2 steps, the first 1 left out"
    assert "320" in texts and "40% of the time" in texts and "60%" in texts


@pytest.mark.in_turn
def test_a_placement_and_a_timeline(workers: Workers) -> None:
    shown = workers.abreast.run(placed_and_timed)
    where = "on cpu:0, cpu:1"
    assert shown["parallel"] == f'<DataParallel {where}: {workers.backend}, batch_norm="local">'
    assert {"cpu:0, cpu:1", "local"} <= set(texts_of(shown["parallel_html"]))
    assert shown["before"] == "<Timeline: 0 steps>"
    assert texts_of(shown["before_html"])[0] == "Timeline: 0 steps"
    assert shown["after"].startswith("<Timeline: 4 steps on cpu:0")
    assert "comput" in " ".join(texts_of(shown["after_html"]))


def placed_and_timed() -> dict[str, Any]:
    import keras

    import abreast

    parallel = abreast.DataParallel(2, batch_norm="local")
    with parallel:
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    timeline = abreast.Timeline(sample_seconds=None)
    before, before_html = repr(timeline), timeline._repr_html_()
    x = np.ones((16, 3), "float32")
    model.fit(x, x[:, :1], batch_size=4, verbose=0, callbacks=[timeline])
    shown = {
        "parallel": repr(parallel),
        "parallel_html": parallel._repr_html_(),
        "before": before,
        "before_html": before_html,
        "after": repr(timeline),
        "after_html": timeline._repr_html_(),
    }
    parallel.close()
    return shown
