"""The page at `/`: what runs here, and where to go from here."""
