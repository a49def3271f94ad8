"""Speed and memory as ratios: `python -m benchmarks.NAME [--quick]`; and what the micro-world gives away unlearned."""
