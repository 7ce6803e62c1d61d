"""Reports on the history of messages, with Spark."""
