"""Planted faults in the lines a guarantee rests on; each must be caught by the fast tests of its file. See README.md."""
