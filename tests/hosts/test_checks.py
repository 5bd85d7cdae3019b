"""What may differ between the processes of a job, and what is an error that names ranks, hosts, and both values."""

from __future__ import annotations

from typing import Any

import pytest

from abreast.errors import LaunchError
from abreast.hosts import checks


def hello(rank: int, **changed: dict[str, str]) -> dict[str, Any]:
    own = checks.facts("jax", {"abreast": "1", "Keras": "3.15.1", "JAX": "0.10"}, {"floatx": "float32"}, 2)
    return {"rank": rank, "host": f"h{rank}", **{name: {**own[name], **changed.get(name, {})} for name in own}}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"versions": {"abreast": "2"}}, "rank 2 on host h2 has abreast 2, and rank 0 on host h0 1\nhint: install"),
        ({"versions": {"Keras": "3.14.0"}}, "has Keras 3.14.0, and rank 0 on host h0 3.15.1\nhint: install the same"),
        ({"versions": {"JAX": "0.9"}}, "has JAX 0.9, and rank 0 on host h0 0.10\nhint: install the same versions"),
        ({"versions": {"Python": "3.9"}}, "rank 2 on host h2 has Python 3.9, and rank 0 on host h0 3."),
        ({"versions": {"NumPy": "1.26"}}, "rank 2 on host h2 has NumPy 1.26, and rank 0 on host h0 "),
        (
            {"backend": {"Keras with the backend": "torch"}, "versions": {"PyTorch": "2.13"}},
            "rank 2 on host h2 uses Keras with the backend torch, and rank 0 on host h0 jax\nhint: set KERAS_BACKEND",
        ),
        ({"settings": {"floatx": "float16"}}, "has floatx float16, and rank 0 on host h0 float32\nhint: give Keras"),
        ({"script": {"the script": "other.py"}}, "rank 2 on host h2 runs the script other.py, and rank 0 on host h0 "),
        ({"versions": {"a newer entry": "1"}}, "rank 2 on host h2 has a newer entry 1, and rank 0 on host h0 none"),
    ],
)
def test_a_difference_is_named_with_rank_host_and_both_values(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(LaunchError) as error:
        checks.check([hello(0), hello(1), hello(2, **changed)])
    assert said in str(error.value)


def test_several_ranks_that_differ_are_counted() -> None:
    other = {"versions": {"Keras": "3.14.0"}}
    with pytest.raises(LaunchError, match=r"rank 1 on host h1, as 2 more, has Keras 3\.14\.0, and rank 0"):
        checks.check([hello(0), *(hello(rank, **other) for rank in (1, 2, 3))])


def test_the_same_is_no_error() -> None:
    checks.check([hello(0), hello(1)])


def test_arguments_and_devices_may_differ_and_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    hellos = [hello(0), hello(1, arguments={"": "--output rank1"}, devices={"": "3"})]
    checks.check(hellos)
    checks.report(hellos)
    said = capsys.readouterr().err
    assert (
        "abreast: the processes have other arguments of the script: rank 1 on host h1 --output rank1, and rank 0"
        in said
    )
    assert (
        "abreast: the processes have other numbers of devices: rank 1 on host h1 3, and rank 0 on host h0 2\n" in said
    )


def test_a_script_is_known_by_its_content(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for text in ("1", "2", "1"):
        (tmp_path / "train.py").write_text(text)
        monkeypatch.setattr("sys.argv", [str(tmp_path / "train.py"), "--epochs", "2"])
        found.append(checks.facts("jax", {}, {}, 1))
    assert found[0] == found[2] != found[1]
    assert found[0]["script"]["the script"].startswith("train.py (checksum ")
    assert found[0]["arguments"] == {"": "--epochs 2"}
    monkeypatch.setattr("sys.argv", ["-c"])
    assert checks.facts("jax", {}, {}, 1)["script"] == {"the script": "without a file"}
