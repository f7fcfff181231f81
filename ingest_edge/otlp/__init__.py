"""OTLP/HTTP at the edge: decodes and validates requests, rejects single records, responds as the protocol requires."""
