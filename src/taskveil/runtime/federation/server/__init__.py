"""The server's side of a federation: driver, checks on replies, results, watch."""
