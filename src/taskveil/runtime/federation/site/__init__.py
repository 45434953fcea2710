"""The site's side of a federation: its decisions, its answers, what it must not forget."""
