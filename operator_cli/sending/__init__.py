"""Ships files to a Pharos: lines become batches whose IDs follow from their place, so that none is stored twice."""
