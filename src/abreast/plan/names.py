"""The names that `abreast plan` knows, for `--list`: models, machines, exchanges, software."""

from __future__ import annotations

from abreast.plan.machine import Machine, machines
from abreast.plan.models import Model, models
from abreast.plan.software import EXCHANGES, SOFTWARE
from abreast.text_table import text_table
from abreast.units import count


def names_as_data() -> dict[str, dict[str, str]]:
    """The names by option, each with a short description."""
    return {
        "model": {name: _model(model) for name, model in models().items()},
        "machine": {name: _machine(machine) for name, machine in machines().items()},
        "exchange": dict(EXCHANGES),
        "software": {name: software.about for name, software in SOFTWARE.items()},
    }


def names_text() -> str:
    """A table for each option."""
    return "\n\n".join(
        text_table([(f"--{option}", ""), *((f"  {name}", about) for name, about in names.items())])
        for option, names in names_as_data().items()
    )


def _model(model: Model) -> str:
    """Only a model with an operation count has a roofline."""
    size = f"{count(round(model.num_parameters))} parameters"
    return size if model.flops_per_row is None else f"{size}; with an operation count"


def _machine(machine: Machine) -> str:
    link = f"{machine.devices_per_host} x {machine.device.name}"
    return link if machine.network is None else f"{link} a host, {machine.network.kind} between hosts"
