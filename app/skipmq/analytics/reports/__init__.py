"""Reports: pure functions from a DataFrame of the history to a DataFrame."""

from skipmq.analytics.reports.backlog import backlog, forecast
from skipmq.analytics.reports.comparison import comparison
from skipmq.analytics.reports.consumers import consumers
from skipmq.analytics.reports.dead_letters import dead_letter_causes
from skipmq.analytics.reports.groups import groups
from skipmq.analytics.reports.latency import latency, summary
from skipmq.analytics.reports.redelivery import receive_counts, redelivery, visibility
from skipmq.analytics.reports.traffic import traffic

__all__ = [
    "backlog",
    "comparison",
    "consumers",
    "dead_letter_causes",
    "forecast",
    "groups",
    "latency",
    "receive_counts",
    "redelivery",
    "summary",
    "traffic",
    "visibility",
]
