"""Utilisation, memory and clocks of devices and of this process."""
