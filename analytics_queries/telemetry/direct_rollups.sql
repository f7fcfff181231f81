-- Statements of `direct_rollups.py`.

-- name: complete
-- Which projections do all parts of these tables have? Replicated tables are left out.
SELECT projections.table, projections.name
FROM system.projections
LEFT JOIN
(
    SELECT table, groupArrayIntersect(projections) AS names
    FROM system.parts
    WHERE database = 'pharos' AND table IN {tables:Array(String)} AND active AND rows > 0
    GROUP BY table
) AS filled
ON filled.table = projections.table
WHERE projections.database = 'pharos'
    AND projections.table IN
    (
        SELECT name FROM system.tables
        WHERE database = 'pharos' AND name IN {tables:Array(String)} AND engine NOT LIKE 'Replicated%'
    )
    AND (filled.table = '' OR has(filled.names, projections.name));
