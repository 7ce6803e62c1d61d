"""What analytics reads, erases and sends again by SQL."""
