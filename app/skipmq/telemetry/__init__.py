"""What a process says of itself: metrics, traces, log lines."""
