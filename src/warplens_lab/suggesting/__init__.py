"""What to change, each with what it gives when it is compiled."""
