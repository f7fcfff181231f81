"""OTLP/HTTP at the edge: decoding, what is rejected record by record, answers as the protocol has them."""
