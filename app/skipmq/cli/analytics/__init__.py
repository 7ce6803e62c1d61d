"""Commands of the analytics pipeline."""
