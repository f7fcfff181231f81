"""Queries over the visits of a site in any period, selected by conditions. They read the daily rollups of
`visits/`."""
