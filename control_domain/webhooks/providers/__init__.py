"""The Git hosts whose webhooks are understood: a module a host."""
