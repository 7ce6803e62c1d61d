"""Folders, certificates and databases for tests of commands."""

from support.places import data, files, lent, node_url, place

__all__ = ["data", "files", "lent", "node_url", "place"]
