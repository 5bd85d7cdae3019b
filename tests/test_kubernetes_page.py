"""The files of the guide about Kubernetes: their variables say which pod is which rank, and where the secret is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from abreast.launchers import World, read_world
from tests import recorded_launchers as recorded
from tests.harness.client import ROOT

yaml = pytest.importorskip("yaml")
PAGE = (ROOT / "docs/guides/kubernetes.md").read_text()
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def documents(kind: str) -> list[dict[str, Any]]:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [each for block in blocks for each in yaml.safe_load_all(block) if each["kind"] == kind]


def pod_specs(value: Any) -> Iterator[dict[str, Any]]:
    """Every part with containers, from the outside in."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for inner in value.values():
            yield from pod_specs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from pod_specs(inner)


def variables(entries: list[dict[str, Any]], index: int) -> dict[str, str]:
    """What Kubernetes sets in the pod with that index."""
    indexed = {"valueFrom": {"fieldRef": {"fieldPath": INDEX}}}
    for each in entries:
        assert set(each) == {"name", "value"} or each == {"name": each["name"], **indexed}, each
    return {"JOB_COMPLETION_INDEX": str(index)} | {each["name"]: each.get("value", str(index)) for each in entries}


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_each_pod_of_a_job_knows_its_number_and_the_address_of_the_first(kind: str) -> None:
    (document,) = documents(kind)
    (pod,) = pod_specs(document)
    (container,) = pod["containers"]
    worlds = [read_world(variables(container["env"], index)) for index in range(2)]
    name, domain = ("digits", "digits") if kind == "Job" else ("digits-node-0", document["metadata"]["name"])
    assert worlds == [
        World(rank, 2, 0, 1, f"{name}-{rank}.{domain}", "--hosts", f"{name}-0.{domain}", 29500, per="host")
        for rank in range(2)
    ]
    spec = document["spec"]
    job = spec if kind == "Job" else spec["replicatedJobs"][0]["template"]["spec"]
    assert (job["completions"], job["parallelism"], job["completionMode"]) == (2, 2, "Indexed")


def test_the_service_gives_the_pods_of_the_job_the_names_that_they_use() -> None:
    (service,), (job,) = documents("Service"), documents("Job")
    name = job["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"]
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert service["metadata"]["name"] == job["spec"]["template"]["spec"]["subdomain"] == name


def test_pods_of_a_trainjob_are_understood() -> None:
    torch, jax = documents("TrainJob")
    own = [variables(each["spec"]["trainer"]["env"], 1) for each in (torch, jax)]
    assert own[0]["KERAS_BACKEND"] == "torch" and own[1]["KERAS_BACKEND"] == "jax"
    assert read_world({**recorded.trainjob_jax(1), **own[1]}).rank == 1
    in_torchrun = {**recorded.trainjob_torch(1), **recorded.torchrun_2_13(1), **own[0]}
    assert read_world(in_torchrun).source == "torchrun"


def test_every_job_mounts_the_secret_where_it_says_for_its_owner_alone() -> None:
    for document in [each for kind in ("Job", "JobSet", "TrainJob") for each in documents(kind)]:
        (pod,) = pod_specs(document)
        entries = pod["containers"][0].get("env") or document["spec"]["trainer"]["env"]
        (mount,) = pod["containers"][0]["volumeMounts"]
        (volume,) = pod["volumes"]
        path = next(each["value"] for each in entries if each["name"] == "ABREAST_SECRET_FILE")
        assert path == f"{mount['mountPath']}/secret" and mount["name"] == volume["name"] == "secret"
        assert volume["secret"] == {"secretName": "abreast", "defaultMode": 0o400}
    assert "create secret generic abreast --from-literal=secret=" in PAGE
