"""The wire format of OTLP/HTTP JSON (opentelemetry-proto 1.x), as typed structs.

Decoding into these structs is the validation: the edge refuses what does not fit, the consumer reads the same bytes
into the same fields. 64-bit integers come as strings or numbers, so decoding is lenient (`strict=False`). A `null` is
an absent member. Members that are not stored have no field here, so the decoder ignores them.
"""
