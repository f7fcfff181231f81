"""What the parts of Pharos agree on: records, identifiers, settings, errors. Pure: nothing here does I/O."""
