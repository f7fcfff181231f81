"""Sends steady load to deployed applications while they are switched, scaled, put to sleep and killed: `make
switching`."""
