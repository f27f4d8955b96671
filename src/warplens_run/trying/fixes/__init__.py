"""What can be switched on and off while a program runs: one file for each kind of change.

A fix is made before the program runs and knows nothing of it; what it needs is looked for when it is first switched on.
"""
