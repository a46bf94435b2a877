"""How fast flo is, as ratios to what one would write by hand: ``python -m benchmarks`` in the repository's root."""
