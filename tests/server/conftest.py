"""Folders, certificates and databases for tests of nodes."""

from support.places import data, files, node_url, place

__all__ = ["data", "files", "node_url", "place"]
