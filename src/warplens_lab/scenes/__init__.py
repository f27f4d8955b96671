"""What the lab's pages show, as records that need no compiler."""
