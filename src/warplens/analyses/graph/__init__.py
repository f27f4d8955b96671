"""The step's graph: what each launch, GPU event and wait had to come after, and how long a changed step would take."""
