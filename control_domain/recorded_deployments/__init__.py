"""Deployments that other systems reported, shown as markers on the timeline of an environment."""
