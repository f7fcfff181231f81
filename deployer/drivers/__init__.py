"""Drivers, which run applications: the interface, and a folder for each driver."""
