"""Where applications run: the interface, and a folder a driver."""
