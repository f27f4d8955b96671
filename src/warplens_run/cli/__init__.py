"""The verbs that run programs and plans, and how every verb prints and ends; `main` is a command line of them alone."""
