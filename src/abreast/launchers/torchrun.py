"""Processes of torchrun, and of everything else that sets torch's variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from abreast.launchers.variables import world_of
from abreast.launchers.world import World


def torchrun(environ: Mapping[str, str]) -> World | None:
    """The world of torch's variables. Without `LOCAL_RANK` they number hosts, as in pods of a PyTorchJob and on Vertex AI.

    Sources: torch's elastic agent; Vertex AI, "Distributed PyTorch"; Alibaba PAI, "Built-in environment variables".
    """
    found = world_of(environ, "torchrun", ("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if found is None or "LOCAL_RANK" in environ:
        return found
    return replace(found, per="host")


def started_this(environ: Mapping[str, str]) -> bool:
    """Whether torchrun itself started this process; other programs set its variables, too."""
    return "TORCHELASTIC_RUN_ID" in environ
