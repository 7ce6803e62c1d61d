"""Example scripts, which can be run cell by cell."""
