-- How much space do the disks of the store have? An object store reports more than a disk can have.
SELECT name, free_space, total_space
FROM system.disks
WHERE total_space > 0 AND total_space < 1152921504606846976
ORDER BY name
