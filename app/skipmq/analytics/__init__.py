"""Analytics of the history: reading settled messages over JDBC and exporting them to a lake.

Only this package imports PySpark, which the extra `analytics` installs. Its interface to the
database is the schema `skipmq_views`; the columns of its frames are `columns.HISTORY`.
"""
