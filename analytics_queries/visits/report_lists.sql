-- What were the pages, sources, links and so on with the most visitors of a site in some days?
-- {{rows}} is a selection of `visit_days`. Visitors are pairs of visitor and day: where a visitor has one visit on a day the
-- pair need not be told from others, which spares most of the work.
WITH recent AS MATERIALIZED ({{visit_days}}),
    rows AS (
        SELECT * FROM (
            SELECT {{columns}} FROM pharos.visit_days
            WHERE site_id = {site_id:UInt64} AND day >= {from:Date} AND day <= {to:Date} AND run IN {runs:Array(UInt64)}
            UNION ALL
            SELECT {{columns}} FROM recent WHERE day >= {from:Date} AND day <= {to:Date}
        )
        WHERE {{kept}}
    )
