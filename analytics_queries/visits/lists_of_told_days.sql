-- Without filters visits need not be looked at again: what was added up when their days were told, and the open day.
SELECT list, name, visitors, number
FROM pharos.visit_day_lists
WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
UNION ALL
{{lists_of_open_days}}
