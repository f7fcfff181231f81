"""Runs the whole platform in one process: the only package that imports every embedded adapter."""
