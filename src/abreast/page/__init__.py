"""The parts that make up every page of abreast: one self-contained HTML file that loads nothing."""
