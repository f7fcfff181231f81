"""The variables that an environment's application runs with."""
