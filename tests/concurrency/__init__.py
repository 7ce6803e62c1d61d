"""Clients at war over a few small queues, and what their history must not show."""
