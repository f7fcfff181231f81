"""Configuration documents: read them with their bindings, and write one for an existing project."""
