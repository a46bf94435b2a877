"""What flo does in the benchmarks, by its public interface."""
