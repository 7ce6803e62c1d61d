"""Spark: its session, its format `skipmq`, streams, sinks and the pipeline."""
