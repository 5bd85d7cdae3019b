"""Sources of images: one small adapter for each kind. An adapter gives its items in a fixed order."""
