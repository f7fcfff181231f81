"""JSON Schemas of the documents that people write, for their editors and for checks without a Pharos."""
