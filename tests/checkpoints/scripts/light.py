"""What `two_phases.py` does, without a framework: two loops that a signal interrupts as it does a `fit`.

`python light.py LOG RESULT`. A start takes no time, so many signals can be sent.
"""

import json
import os
import sys
import time

log_file = open(sys.argv[1], "a", buffering=1)


def note(phase):
    log_file.write(f"{phase} {time.monotonic()}\n")


note("import")
import numpy as np  # noqa: E402

from abreast.checkpoints import stop  # noqa: E402
from abreast.checkpoints.policy import default  # noqa: E402

note("build")
STEP_SECONDS = 0.02


def save(name, state):
    os.makedirs(default().folder, exist_ok=True)
    file = f"{default().folder}/{name}"
    with open(f"{file}.new", "w") as new:
        json.dump(state, new)
    os.rename(f"{file}.new", file)


def saved(name):
    try:
        with open(f"{default().folder}/{name}") as file:
            return json.load(file)
    except FileNotFoundError:
        return {"step": 0, "value": 0.5}


def work():
    end = time.monotonic() + STEP_SECONDS
    while time.monotonic() < end:
        time.sleep(0.001)


def fit(name, num_steps):
    state = saved(name)
    with stop.in_fit():
        note("compile")
        while state["step"] < num_steps:
            work()
            state = {"step": state["step"] + 1, "value": 3.9 * state["value"] * (1 - state["value"])}
            note("steps")
            if stop.requested():
                save(name, state)
                stop.end(name)
            if state["step"] % 3 == 0:
                save(name, state)
            if state["step"] % 8 == 0:
                note("validation")
                work()
                note("epoch end")
        save(name, state)
    return state["value"]


values = []
for number in range(2):
    note("between")
    values.append(fit(f"fit-{number}", 16))
    note("between")
    time.sleep(0.1)
np.savez(sys.argv[2], values=np.array(values), history="[]")
note("done")
