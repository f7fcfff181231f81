"""Sends HTTP requests of channels to other servers. They have limits for time and size, and only go to
checked addresses."""
