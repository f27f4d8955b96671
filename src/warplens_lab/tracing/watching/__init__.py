"""What is recorded of a launch: `session.trace` opens a trace, `launches` follows one launch, `recorder` counts.

memory, shadow and undefined find faults; patterns and sectors describe accesses; sites and operands find statements;
script runs a user's script with all of it.
"""
