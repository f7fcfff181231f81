-- Publishes or revokes one key, and appends the change to the stream that the edges follow.
-- KEYS: the directory, changes, keys revoked since the last publication, keys published since, the order of changes.
-- ARGV: the digest, its entry (empty: revoked), maximum length of the stream.
-- Changes are numbered because publish_all.lua must know which came after a list was read; clocks can be set back.
local number = redis.call('HINCRBY', KEYS[5], 'number', 1)
local change
-- The last change counts: a key that is published again is no longer revoked.
if ARGV[2] == '' then
  change = 'revoked'
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZADD', KEYS[3], number, ARGV[1])
  redis.call('ZREM', KEYS[4], ARGV[1])
else
  change = 'published'
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('ZADD', KEYS[4], number, ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', change, ARGV[1])
return 1
