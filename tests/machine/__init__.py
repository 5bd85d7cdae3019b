"""`abreast machine`: what it measures, and what it reads about GPUs and their links."""
