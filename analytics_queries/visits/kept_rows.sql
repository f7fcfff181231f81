SELECT {{chosen}}
FROM
(
    SELECT {{columns}}, actions.name AS action_names
    FROM pharos.visit_days
    WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
    UNION ALL
    SELECT {{columns}}, actions.name AS action_names
    FROM pharos.open_visit_days
    WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
)
WHERE ({source:String} = '' OR source = {source:String})
    AND ({campaign:String} = '' OR campaign = {campaign:String})
    AND ({device:String} = '' OR device = {device:String})
    AND ({country:String} = '' OR country = {country:String})
    AND ({path:String} = '' OR has(pages, {path:String}) OR has(other_pages, {path:String}))
