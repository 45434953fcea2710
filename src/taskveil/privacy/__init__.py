"""Everything that can change a privacy guarantee, and nothing else. Start with README.md in this folder."""
