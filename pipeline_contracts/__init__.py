"""Definitions that all parts of Pharos share: records, identifiers, settings, errors. Pure: nothing here does I/O."""
