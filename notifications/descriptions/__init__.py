"""What an incident is called in a message: one module per family, from the facts of its events. Pure."""
