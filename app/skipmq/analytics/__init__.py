"""History and Spark: reading every settled message over JDBC, and keeping it as Parquet.

The one place that imports PySpark, of the extra `analytics`. The contract with the database are the
views of the schema `skipmq_views`; the contract between its own parts is `columns.HISTORY`.
"""
