"""One deployment, from the queue to its end."""
