"""Deployments that others made and reported: marks on an environment's Monitoring timeline."""
