"""Deployments, their logs, and the releases that came of them."""
