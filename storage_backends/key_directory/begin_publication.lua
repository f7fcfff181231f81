-- Numbers a publication before its list is read from the database.
-- KEYS: the order of changes, keys revoked since the last publication, keys published since. ARGV: a random name for
-- the data of this Redis, used if it has none.
-- Returns: the name of the data, the number. Every change with a lower number was committed before the list is read.
if redis.call('HSETNX', KEYS[1], 'data', ARGV[1]) == 1 then
  -- Only the order was lost, for example because Redis evicts keys. Numbers begin again at 1, and changes with the old
  -- numbers would count as newer than every list.
  redis.call('DEL', KEYS[2], KEYS[3])
end
return {redis.call('HGET', KEYS[1], 'data'), redis.call('HINCRBY', KEYS[1], 'number', 1)}
