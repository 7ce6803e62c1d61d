"""PostgreSQL: connections, prepared statements, and retries while the server is unavailable."""
