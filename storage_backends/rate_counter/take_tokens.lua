-- Takes tokens from an account's bucket, as TokenBucket.take does, by the clock of Redis, which all edges share.
-- KEYS: the bucket, the active edges.
-- ARGV: at least, at most, tokens a second, burst, this edge's name, seconds after which a silent edge is inactive; in
-- tests also the time, so that sequences can be compared with TokenBucket.
-- Returns: granted, remaining, seconds to wait (as text: Redis truncates numbers), number of active edges.
local now = tonumber(ARGV[7])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end
local at_least, at_most = tonumber(ARGV[1]), tonumber(ARGV[2])
local rate, burst = tonumber(ARGV[3]), tonumber(ARGV[4])

redis.call('ZADD', KEYS[2], now, ARGV[5])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - tonumber(ARGV[6]))
-- Entries from before the clock was set back: remove them, because active edges add themselves again.
redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. now + tonumber(ARGV[6]), '+inf')
local edges = redis.call('ZCARD', KEYS[2])

local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'updated')
local tokens = tonumber(bucket[1]) or burst
local updated = tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - updated) * rate)
-- A clock that is set back (by a failover to another machine) adds no tokens; the bucket refills from the new time.
updated = now

local granted, wait = 0, 0
if tokens < at_least then
  wait = (at_least - tokens) / rate
else
  granted = math.min(at_most, math.floor(tokens))
  tokens = tokens - granted
end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens), 'updated', string.format('%.17g', updated))
-- An unused bucket is full by then, so it may expire; no bucket is kept for more than 30 days.
redis.call('EXPIRE', KEYS[1], math.min(2592000, math.ceil(burst / rate) + 60))
return {granted, math.floor(tokens), string.format('%.17g', wait), edges}
