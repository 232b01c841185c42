"""``python -m lean_nn.cli``."""

from lean_nn.cli import entry

if __name__ == "__main__":
    entry()
