"""What runs where: a node, its workers and its janitor."""
