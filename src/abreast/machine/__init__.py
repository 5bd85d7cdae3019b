"""`abreast machine`: what this machine is, and the measured rates of its links."""
