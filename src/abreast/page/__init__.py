"""The parts of every page that abreast writes: one HTML file that loads nothing."""
