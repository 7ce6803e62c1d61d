"""What can go wrong."""


class ClusterError(Exception):
    """The cluster cannot be had, or did not do what was asked; the message says what to do."""
