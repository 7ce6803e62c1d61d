"""The error that the package raises."""


class ClusterError(Exception):
    """The cluster could not be started or changed; the message has the remedy."""
