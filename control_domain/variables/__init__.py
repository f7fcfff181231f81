"""The environment variables of deployed applications."""
