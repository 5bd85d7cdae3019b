"""The documentation site: `make docs` makes `build/site/` of these pages. On GitHub the same pages are read as they are."""

project = "abreast"
author = "the authors of abreast"
html_title = "abreast"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["README.md"]  # the index for those who read in the repository; index.md is the site's
html_theme = "furo"
myst_heading_anchors = 4
nb_execution_mode = "off"  # tests/test_notebooks.py runs them; the outputs are in the files
autodoc_typehints = "none"  # the signature shows them
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 100
