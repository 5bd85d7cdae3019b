"""The sets of photographs that image benchmarks measure with. Imports nothing: processes that are measured know them too."""

SETS = {"480x480 q95": (480, 480, 95), "500x375 q90": (500, 375, 90)}  # width, height, quality
