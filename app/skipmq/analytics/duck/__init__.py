"""Execution of PySpark DataFrames by DuckDB in this process, for reports."""
