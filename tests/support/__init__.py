"""What the tests speak in: servers, databases, SQL queues, HTTP clients, node processes."""
