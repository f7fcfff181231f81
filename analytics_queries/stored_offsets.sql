-- How many rows of each record of this range of the log does this table have?
SELECT log_offset, count()
FROM {database:Identifier}.{table:Identifier}
WHERE log = {log:String} AND log_offset >= {first:UInt64} AND log_offset < {past_last:UInt64}
GROUP BY log_offset
