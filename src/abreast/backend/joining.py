"""The meeting of a process with the others of its job, before its framework joins them, on every backend."""

from __future__ import annotations

import keras

from abreast import __version__, hosts
from abreast.hosts import checks
from abreast.launchers import World


def join(
    world: World, framework: str, version: str, devices: int, *, beside_store: bool | None = None
) -> hosts.Meeting:
    """Meet all ranks, and compare versions, the script and Keras's settings, which must be the same. See `hosts.meet`.

    `framework` is the framework's name for people, and `devices` the number of devices of this process.
    """
    versions = {"abreast": __version__, "Keras": keras.__version__, framework: version}
    settings = {
        "floatx": keras.config.floatx(),
        "the dtype policy": keras.config.dtype_policy().name,
        "epsilon": keras.config.epsilon(),
        "image_data_format": keras.config.image_data_format(),
    }
    facts = checks.facts(keras.config.backend(), versions, settings, devices)
    meeting = hosts.meet(world, facts, beside_store=beside_store)
    checks.check(meeting.hellos)
    if world.rank == 0:
        checks.report(meeting.hellos)
    return meeting
