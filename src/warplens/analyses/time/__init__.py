"""When the GPU worked and when it waited: timeline, steps, phases, gaps, activity, durations."""
