"""The timeline: steps, their parts and devices, and the files that it writes."""
