"""A test that tries to lose a message: load, faults, a history, and ten rules that it must keep."""
