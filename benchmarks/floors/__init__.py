"""What one would write by hand: a driver, its statements and nothing else."""
