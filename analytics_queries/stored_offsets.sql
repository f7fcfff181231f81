-- Which records of this stretch of the log have rows in this table?
SELECT DISTINCT log_offset
FROM {database:Identifier}.{table:Identifier}
WHERE log = {log:String} AND log_offset >= {first:UInt64} AND log_offset < {past_last:UInt64}
