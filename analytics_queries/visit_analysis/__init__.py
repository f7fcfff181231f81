"""Queries over visits of a site in any period, selected by conditions. They read the rollups of `visits/`."""
