-- name: read_engines
-- What are the TTL clauses of the tables?
SELECT name, engine_full FROM system.tables WHERE database = 'pharos' AND engine_full LIKE '% TTL %'

-- name: read_partitions
-- Which partitions do the tables have?
SELECT DISTINCT table, partition_id
FROM system.parts
WHERE active AND database = 'pharos' AND has({tables:Array(String)}, table)
ORDER BY table, partition_id
