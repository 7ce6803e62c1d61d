"""The processes of a node: workers, their supervisor and the janitor."""
