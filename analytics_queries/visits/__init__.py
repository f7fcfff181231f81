"""Visits of sites: daily rollups, and reports that read them."""
