-- How many rows and bytes does each partition of each table have on the server that answers?
SELECT table, partition_id, toUInt64(sum(rows)) AS rows, toUInt64(sum(bytes_on_disk)) AS bytes
FROM system.parts
WHERE active AND database = 'pharos'
GROUP BY table, partition_id
ORDER BY table, partition_id
