-- How many rows of each record of this range of the log does this table have? One row with the offsets and their numbers of
-- rows: 50,000 rows would be as many lists in Python.
SELECT groupArray(log_offset), groupArray(rows)
FROM
(
    SELECT log_offset, count() AS rows
    FROM {database:Identifier}.{table:Identifier}
    WHERE log = {log:String} AND log_offset >= {first:UInt64} AND log_offset < {past_last:UInt64}
    GROUP BY log_offset
)
