"""The rules behind `suggest`, by what they look at."""
