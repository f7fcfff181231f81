-- The module inserts the columns and the table: that of days that are over, or of the one that is not.
        SELECT {columns}
        FROM pharos.{table}
        WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
