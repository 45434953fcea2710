"""Personal models that learn together, with privacy statements that are proved."""
