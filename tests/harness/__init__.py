"""Long-lived processes, one framework each, in which test bodies run. `client.py` starts them; `worker.py` is their program."""
