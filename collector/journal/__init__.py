"""What makes a batch durable before its answer, and the one writer that stores it."""
