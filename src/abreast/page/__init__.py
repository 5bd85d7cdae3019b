"""The parts that make up every page of abreast: one self-contained HTML file that loads nothing.

There are no templates and no plotting library. `markup.py` escapes every string, as jinja2's autoescape does, in 60 lines that a
type checker understands. The drawings follow the reader's light or dark theme and name each mark, unlike matplotlib's SVG.
"""
