"""`python -m warplens`, the same as `warplens`."""

from warplens.cli import entry

if __name__ == "__main__":
    entry()
