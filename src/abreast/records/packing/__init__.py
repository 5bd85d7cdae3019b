"""Writing packed images. A kill at any moment leaves a folder that is whole, can be continued, or is refused."""
