"""Measured ratios, not asserted times: see README.md."""
