"""What the alert rules do, on series of real faults and of made ones."""
