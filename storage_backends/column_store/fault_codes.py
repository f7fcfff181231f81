"""ClickHouse's error codes, by what they mean for a retry."""

# Rows that no repetition makes right: what the parser of the input format, the types and the constraints answer.
# Any other fault of an insert may pass.
DATA_FAULTS = frozenset({6, 26, 27, 33, 38, 41, 53, 69, 70, 72, 117, 131, 349, 467, 469, 691})
# Faults of a query that lie with the engine, the machine or the account there, not with the query's text.
ENGINE_FAULTS = frozenset(
    {159, 173, 192, 193, 194, 202, 209, 210, 236, 241, 242, 243, 252, 319, 425, 516, 999, 1000, 1001}
)
