"""A test that tries to lose a message: load, faults, a history, and eleven rules it must keep."""
