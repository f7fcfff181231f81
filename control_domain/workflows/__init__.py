"""Workflow documents: how a project is built, released and run."""
