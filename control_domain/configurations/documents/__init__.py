"""Configuration documents: read with their bindings, and written of a project as it is."""
