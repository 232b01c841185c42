"""``python -m lean_nn.cli``."""

import sys

from lean_nn.cli import main

if __name__ == "__main__":
    sys.exit(main())
