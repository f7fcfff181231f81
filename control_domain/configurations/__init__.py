"""Configuration as code: read documents that describe a project, plan the changes, and apply them in runs."""
