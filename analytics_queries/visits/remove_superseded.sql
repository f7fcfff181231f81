-- Remove the rows of runs that no longer tell of a day. `before` is a run's number by time: who has asked for the rows of an
-- older one has long been answered.
DELETE FROM pharos.{table:Identifier}
WHERE run < {before:UInt64} AND run NOT IN (SELECT run FROM pharos.told_days FINAL)
