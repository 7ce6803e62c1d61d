"""What other brokers declare, read as queues of ours and a list of what differs."""
