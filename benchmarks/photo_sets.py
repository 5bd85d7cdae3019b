"""The sets of photographs of the image benchmarks. Imports nothing, because measured processes import this too."""

SETS = {"480x480 q95": (480, 480, 95), "500x375 q90": (500, 375, 90)}  # width, height, quality
