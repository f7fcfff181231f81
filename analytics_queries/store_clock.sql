-- What time is it in the column store, in milliseconds since 1970?
SELECT toUnixTimestamp64Milli(now64(3)) AS now_ms
