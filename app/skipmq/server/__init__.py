"""One request: the doors that it comes through, and what they do with it."""
