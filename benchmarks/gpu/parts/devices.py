"""Checks that a framework sees the devices that the driver lists, and computes on them."""

from __future__ import annotations

from benchmarks.gpu.place import Found, Missing, Place


def run(place: Place) -> Found:
    """`facts["num_devices"]` is the number of devices that all other parts may use."""
    import keras

    import abreast
    from abreast.device_list import list_devices

    place.prepare()
    names = [name for name in abreast.devices() if name.startswith(f"{place.kind}:")]
    listed = [device.name for device in list_devices() if device.kind == place.kind]
    if not names:
        raise Missing(f"a GPU for {place.backend}: it sees {', '.join(abreast.devices()) or 'no device'}")
    ones = keras.ops.ones((8, 8))
    total = float(keras.ops.convert_to_numpy(keras.ops.sum(keras.ops.matmul(ones, ones))))
    problems = [f"8 x 8 ones multiplied sum up to {total:g}, not 512"] if total != 512 else []
    if not place.simulated and names != listed:
        problems.append(f"{place.backend} sees {', '.join(names)}, the driver {', '.join(listed)}")
    models = sorted({device.model for device in list_devices() if device.name in names})
    facts = {"num_devices": len(names), "devices": names, "models": models}
    return Found(f"{len(names)} x {', '.join(models)}", facts, tuple(problems))
