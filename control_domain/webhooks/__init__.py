"""Webhooks of Git hosts: pushes deploy, pull requests get previews."""
