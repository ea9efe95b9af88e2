-- Reads KEYS[1]. If its version is ARGV[1] ('': if it does not exist), writes ARGV[2] for ARGV[3] milliseconds.
-- Returns {1, version, false, clock} if it wrote, else {0, version, record, clock}.
-- A version is the first eight bytes of a value; shorter values and other types get eight bytes of their own.
local found = redis.pcall('GET', KEYS[1])
local version, record = '', false
if type(found) == 'table' then
  if not string.find(found.err or '', 'WRONGTYPE', 1, true) then
    return found
  end
  version, record = string.rep('\255', 8), ''
elseif found and #found >= 8 then
  version, record = string.sub(found, 1, 8), string.sub(found, 9, 8192)
elseif found then
  version, record = string.char(128 + #found) .. found .. string.rep('\0', 7 - #found), found
end
-- Without ARGV[1] it is nil, which equals no version. The clock comes last: before Redis 5, a script could not write
-- after asking for it.
if version == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return {1, version, false, redis.call('TIME')}
end
return {0, version, record, redis.call('TIME')}
