"""`abreast machine`: facts about this machine, and the measured rates of its links."""
