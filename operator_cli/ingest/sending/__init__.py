"""Ship files: lines become batches whose IDs follow from their position, so that no event is stored twice."""
