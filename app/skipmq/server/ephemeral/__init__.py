"""A temporary node as tests control it: faults, its clock, the state of accounts."""
