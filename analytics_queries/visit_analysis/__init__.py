"""Questions about visits of a site that conditions select, in any period. They read the rollups of `visits/`."""
