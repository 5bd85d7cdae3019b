"""`python -m abreast`: the same as the command `abreast`."""

import sys

from abreast.cli import main

sys.exit(main())
