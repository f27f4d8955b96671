"""What the lab's verbs and files open: checked kernels, traced launches, layouts."""
