"""The page that people read: findings in words, plots, tables; one file, no network."""

from skipmq.analytics.page.page import Facts, render, told

__all__ = ["Facts", "render", "told"]
