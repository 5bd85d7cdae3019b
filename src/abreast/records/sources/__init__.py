"""Where images come from: one small adapter per kind of source, each of which gives items in a fixed order."""
