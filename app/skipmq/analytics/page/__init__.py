"""The page that people read: findings in words, plots, tables; one file, no network."""

from skipmq.analytics.page.page import Facts, findings_of, render

__all__ = ["Facts", "findings_of", "render"]
