"""The SQL of analytics: reading the history, erasure and replays."""
