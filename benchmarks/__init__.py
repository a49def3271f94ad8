"""Speed and memory as ratios: `python -m benchmarks.NAME [--quick]`."""
