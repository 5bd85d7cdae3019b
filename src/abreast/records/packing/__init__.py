"""Writing packed images, so that a kill at any moment leaves them whole, resumable or refused."""
