"""`make bench`: ours beside what users have today, alternating in one run, because the machine is shared and noisy."""
