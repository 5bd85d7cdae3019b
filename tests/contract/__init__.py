"""The contract: the number of devices changes how long training takes, and nothing else."""
