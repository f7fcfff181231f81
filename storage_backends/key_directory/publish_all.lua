-- Replaces the directory with a list of keys that was written under a name of its own.
-- KEYS: the list, the directory, the mark of completeness, changes, keys revoked since the last publication, keys
-- published since, the order of changes.
-- ARGV: number of keys in the list, the result of begin_publication.lua (the name of the data, the number), maximum
-- length of the stream of changes.
-- Returns 1, or 0 if the list is invalid: Redis was emptied, or restored to older data, since the publication began.
local number = tonumber(ARGV[3])
if redis.call('HGET', KEYS[7], 'data') ~= ARGV[2]
    or (tonumber(redis.call('HGET', KEYS[7], 'number')) or 0) < number
    or redis.call('HLEN', KEYS[1]) ~= tonumber(ARGV[1]) then
  redis.call('UNLINK', KEYS[1])
  return 0
end
if (tonumber(redis.call('HGET', KEYS[7], 'placed')) or 0) > number and redis.call('EXISTS', KEYS[3]) == 1 then
  -- A list that was read later has replaced the directory already.
  redis.call('UNLINK', KEYS[1])
  return 1
end
-- Changes after the list was read stay. All other keys in Redis are removed: the database does not have them.
local since = '(' .. ARGV[3]
for _, digest in ipairs(redis.call('ZRANGEBYSCORE', KEYS[6], since, '+inf')) do
  local entry = redis.call('HGET', KEYS[2], digest)
  if entry then redis.call('HSET', KEYS[1], digest, entry) end
end
for _, digest in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], since, '+inf')) do
  redis.call('HDEL', KEYS[1], digest)
end
-- UNLINK frees the old directory in the background: DEL of a large one would block all edges.
redis.call('UNLINK', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('RENAME', KEYS[1], KEYS[2])
  redis.call('PERSIST', KEYS[2])
end
redis.call('SET', KEYS[3], ARGV[3])
redis.call('HSET', KEYS[7], 'placed', number)
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', ARGV[3])
redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[4], '*', 'all', '')
return 1
