-- Numbers a publication before its list is read from the database.
-- KEYS: the order of changes. ARGV: a random name for this Redis' data, if it has none.
-- Gives: the name of the data, the number. Every change with a lower number was committed before the list is read.
redis.call('HSETNX', KEYS[1], 'data', ARGV[1])
return {redis.call('HGET', KEYS[1], 'data'), redis.call('HINCRBY', KEYS[1], 'number', 1)}
