"""Scripts to read, change and run cell by cell."""
