"""A test that tries to lose a message: load, faults, a history, and fourteen rules it must keep."""
