-- The module inserts the columns and the name of the table: of past days, or of the unfinished day.
        SELECT {columns}
        FROM pharos.{table}
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
