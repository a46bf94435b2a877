"""The parts of the benchmarks: each gives lines of the table."""
