-- Puts a list of keys, built under a name of its own, in place of the directory.
-- KEYS: the list, the directory, the mark of completeness, changes, keys revoked of late, keys published of late.
-- ARGV: number of keys in the list, a name for this publication, seconds for which "of late" lasts, most changes to
-- keep.
-- Gives 1, or 0 when the list is not whole: Redis was emptied while it was being written.
if redis.call('HLEN', KEYS[1]) ~= tonumber(ARGV[1]) then
  redis.call('DEL', KEYS[1])
  return 0
end
local now = tonumber(redis.call('TIME')[1])
local since = now - tonumber(ARGV[3])
-- The list was read from the database a moment ago: what was said since then stands.
for _, digest in ipairs(redis.call('ZRANGEBYSCORE', KEYS[6], since, '+inf')) do
  local entry = redis.call('HGET', KEYS[2], digest)
  if entry then redis.call('HSET', KEYS[1], digest, entry) end
end
for _, digest in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], since, '+inf')) do
  redis.call('HDEL', KEYS[1], digest)
end
-- Freed beside the calls that follow: a large one would hold all edges up.
redis.call('UNLINK', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('RENAME', KEYS[1], KEYS[2])
  redis.call('PERSIST', KEYS[2])
end
redis.call('SET', KEYS[3], ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', '(' .. since)
redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', '(' .. since)
redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[4], '*', 'all', '')
return 1
