"""The page that people read: findings in words, charts, tables; one file, no network."""

from skipmq.analytics.page.facts import Facts
from skipmq.analytics.page.page import findings_of, render

__all__ = ["Facts", "findings_of", "render"]
