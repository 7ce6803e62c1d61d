"""What serves: processes, the doors to HTTP, upkeep."""
