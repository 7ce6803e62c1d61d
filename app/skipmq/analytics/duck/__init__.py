"""DuckDB for reports: what PySpark's DataFrames say, computed within this process."""
