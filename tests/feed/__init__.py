"""The feed: when batches are read, the errors of a source, and the state afterwards."""
