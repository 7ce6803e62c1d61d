"""The lake: the history as a Delta table, its export, and its verification."""
