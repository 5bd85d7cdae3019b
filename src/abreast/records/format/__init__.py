"""The format of packed images: bytes, index and manifest of shards."""
