"""Two compilations of a kernel side by side: what got better, what got worse."""
