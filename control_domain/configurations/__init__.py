"""Configuration as code: documents of how a project shall be, plans of what they change, and their application."""
