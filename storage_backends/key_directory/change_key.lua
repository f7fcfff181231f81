-- Makes one key known or unknown, and tells the edges.
-- KEYS: the directory, changes, keys revoked of late, keys published of late.
-- ARGV: the digest, its entry (empty: revoked), most changes to keep.
-- The moment is Redis' own, which publish_all.lua compares it with: the clocks of several controls need not agree.
local now = redis.call('TIME')[1]
local what
-- The last word counts: what is published again is not revoked any more.
if ARGV[2] == '' then
  what = 'revoked'
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZADD', KEYS[3], now, ARGV[1])
  redis.call('ZREM', KEYS[4], ARGV[1])
else
  what = 'published'
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('ZADD', KEYS[4], now, ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', what, ARGV[1])
return 1
