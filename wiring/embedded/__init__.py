"""The whole platform in one process: the only place that sees every embedded adapter."""
