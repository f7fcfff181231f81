"""The durable log between the edge and the consumers."""
