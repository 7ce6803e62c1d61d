"""The report page: findings, charts and tables in one HTML file without external resources."""

from skipmq.analytics.reports.page.page import render, report_findings
from skipmq.analytics.reports.page.sections import ReportData

__all__ = ["ReportData", "render", "report_findings"]
