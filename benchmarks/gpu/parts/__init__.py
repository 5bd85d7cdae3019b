"""The bodies of the parts: each module has `run(place) -> Found`, called in its own process by `body.py`."""
