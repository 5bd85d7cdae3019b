"""Where the time of a training step goes: spans, timelines, device traces, and the doctor.

Imports no framework; what only a framework can tell comes through `backend/contract.py`.
"""
