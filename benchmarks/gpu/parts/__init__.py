"""The bodies of the parts: each module has `run(place) -> Found`, called in a process of its own by `body.py`."""
