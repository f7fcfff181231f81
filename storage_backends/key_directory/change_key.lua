-- Makes one key known or unknown, and tells the edges.
-- KEYS: the directory, changes, keys revoked since the last publication, keys published since, the order of changes.
-- ARGV: the digest, its entry (empty: revoked), most changes to keep.
-- Changes are numbered: publish_all.lua asks which came after a list was read, and a clock that is set back cannot say.
local number = redis.call('HINCRBY', KEYS[5], 'number', 1)
local what
-- The last word counts: what is published again is not revoked any more.
if ARGV[2] == '' then
  what = 'revoked'
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZADD', KEYS[3], number, ARGV[1])
  redis.call('ZREM', KEYS[4], ARGV[1])
else
  what = 'published'
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('ZADD', KEYS[4], number, ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', what, ARGV[1])
return 1
