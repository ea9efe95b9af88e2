-- For each of KEYS, four of ARGV: reads the key; if its version is the first ('': if it does not exist), writes the second
-- for the third's milliseconds. Otherwise, if the fourth is a program and the value differs from the second in its version
-- and its state only, steps that state. Without these four only reads.
-- Returns the clock, if ARGV has one more or a step was taken at that time, else false; then for each key 1 if it wrote; 2
-- and the value before if it stepped; else the value, or false if there is none.
-- A value is a version of eight bytes and a record; shorter values and other types get a version of their own.
local WORD, LONGEST = 4294967296, 9007199254740992
local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local down, max, min = math.floor, math.max, math.min
local clock, micros, now_h, now_l

local function read_clock()
  clock = redis.call('TIME')
  micros = clock[1] * 1000000 + clock[2]
  now_h = down(micros / WORD)
  now_l = (micros - now_h * WORD) * 1000
  local carry = down(now_l / WORD)
  now_h, now_l = now_h * 1000 + carry, now_l - carry * WORD
end

-- A time is two numbers of 32 bits, because numbers of Lua are exact below 2^53 only. So are its nanoseconds from now on: a
-- bucket that may last for longer than these, 104 days, is left to the gate.
local function from_now(high, low)
  return (high - now_h) * WORD + low - now_l
end

local function as_time(from_now)
  local high = down(from_now / WORD)
  local low = from_now - high * WORD + now_l
  if low >= WORD then high, low = high + 1, low - WORD end
  return pack('>I4I4', now_h + high, low)
end

local function refund(at, tokens, full_at)
  return max(at - max(min(full_at, tokens), 0), 0)
end

-- Each of these returns when the bucket is full and its words, or nothing if it has not changed or is unusual: then the gate
-- decides on what stands here.
local function continuous(program, at)
  local hold_h, hold_l, deepest_h, deepest_l = unpack('>I4I4I4I4', program, 18)
  local hold, deepest, changed = hold_h * WORD + hold_l, deepest_h * WORD + deepest_l, false
  for op = 34, #program, 17 do
    local kind, tokens_h, tokens_l, other_h, other_l = unpack('>BI4I4I4I4', program, op)
    local tokens, from = tokens_h * WORD + tokens_l, max(at, 0)
    local next = from
    if kind == 2 then
      next = refund(from, tokens, from_now(other_h, other_l))
      changed = changed or next ~= from
    else
      if from - (other_h * WORD + other_l) <= hold then
        next = from + tokens
      elseif deepest > 0 then
        next = max(min(from + tokens, deepest), from)
      end
      changed = changed or next > 0 and next ~= at
    end
    at = next
  end
  if changed then return at, as_time(at) end
end

-- A period that has ended, is empty or has debt is left to the gate.
local function interval(program, at, value)
  local period_h, period_l, _, quota, _, debt = unpack('>I4I4I4I4I4I4', program, 18)
  local taken_h, taken = unpack('>I4I4', value, #value - 7)
  if taken_h > 0 or taken == 0 or taken > quota or at <= 0 or at > period_h * WORD + period_l then return end
  local before, end_of_time = taken, WORD - 1
  local changed = false
  for op = 42, #program, 17 do
    local kind, _, tokens, end_h, end_l = unpack('>BI4I4I4I4', program, op)
    before = taken
    if kind == 2 then
      if from_now(end_h, end_l) == at or end_h == end_of_time and end_l == end_of_time then
        taken = max(taken - tokens, 0)
      end
    elseif taken + tokens <= quota then
      taken = taken + tokens
    elseif debt > 0 then
      return
    end
    if taken == 0 then return end
    changed = changed or taken ~= before
  end
  if changed then return at, as_time(at) .. pack('>I4I4', 0, taken) end
end

-- The floor's token first, then the pool's. One that is refused with debt takes the pool's all the same.
local function floor(program, _, value)
  local floor_h, floor_l, floor_token_h, floor_token_l, floor_rest_h, floor_rest_l, pool_h, pool_l, pool_token_h,
    pool_token_l, pool_rest_h, pool_rest_l, deepest_h, deepest_l = unpack('>' .. string.rep('I4', 14), program, 18)
  local floor_token, floor_rest = floor_token_h * WORD + floor_token_l, floor_rest_h * WORD + floor_rest_l
  local pool_token, pool_rest = pool_token_h * WORD + pool_token_l, pool_rest_h * WORD + pool_rest_l
  local deepest, changed = deepest_h * WORD + deepest_l, false
  local pool_at_h, pool_at_l, floor_at_h, floor_at_l = unpack('>I4I4I4I4', value, #value - 15)
  local pool, floor = from_now(pool_at_h, pool_at_l), from_now(floor_at_h, floor_at_l)
  if pool > pool_h * WORD + pool_l or floor > floor_h * WORD + floor_l then return end
  pool, floor = max(pool, 0), max(floor, 0)
  for op = 74, #program, 17 do
    local kind, tokens_h, tokens_l, full_h, full_l = unpack('>BI4I4I4I4', program, op)
    local next_pool, next_floor = pool, floor
    if kind == 2 then
      next_pool = refund(pool, tokens_h * WORD + tokens_l, from_now(full_h, full_l))
    elseif floor <= floor_rest then
      next_floor = floor + floor_token
    elseif pool <= pool_rest then
      next_pool = pool + pool_token
    elseif deepest > 0 then
      next_pool = max(min(pool + pool_token, deepest), pool)
    end
    changed = changed or next_pool ~= pool or next_floor ~= floor
    pool, floor = next_pool, next_floor
  end
  if changed then
    local at = max(pool, floor)
    return at, as_time(at) .. as_time(pool) .. as_time(floor)
  end
end

-- Whether it took the step. The state begins with the time at which the bucket is full. Beyond its longest life from now on
-- the clock was set back.
local function step(key, value, new, program, state_at)
  if not clock then read_clock() end
  local until_h, until_l, life_h, life_l = unpack('>I4I4I4I4', program, 2)
  local at_h, at_l = unpack('>I4I4', value, state_at)
  local life, at = life_h * WORD + life_l, from_now(at_h, at_l)
  if at_h + at_l == 0 or at > life or life >= LONGEST or micros >= until_h * WORD + until_l then return false end
  local words, state = string.byte(program)
  if words == 1 then
    at, state = continuous(program, at)
  elseif words == 2 then
    at, state = interval(program, at, value)
  else
    at, state = floor(program, at, value)
  end
  if not state then return false end
  redis.call('SET', key, sub(new, 1, state_at - 1) .. state, 'PX', max(down(at / 1000000) + 1, 1000))
  return true
end

local function swap(key, expected, new, millis, program)
  local value, version = redis.pcall('GET', key), ''
  if type(value) == 'table' then
    if not string.find(value.err or '', 'WRONGTYPE', 1, true) then return value end
    value = string.rep('\255', 8)
    version = value
  elseif value and #value >= 8 then
    version = sub(value, 1, 8)
  elseif value then
    version = string.char(128 + #value) .. value .. string.rep('\0', 7 - #value)
    value = version .. value
  end
  -- What is only read is expected to have a version that none has.
  if version == expected then
    redis.call('SET', key, new, 'PX', millis)
    return 1
  end
  local state_at = program and program ~= '' and #new - 8 * string.byte(program) + 1
  if state_at and value and #value == #new and sub(value, 9, state_at - 1) == sub(new, 9, state_at - 1)
    and (redis.REDIS_VERSION_NUM or redis.replicate_commands and redis.replicate_commands())
    and step(key, value, new, program, state_at) then
    return 2, value
  end
  return value and sub(value, 1, 65544)
end

local replies = {false}
for at, key in ipairs(KEYS) do
  local reply, before = swap(key, ARGV[4 * at - 3], ARGV[4 * at - 2], ARGV[4 * at - 1], ARGV[4 * at])
  if type(reply) == 'table' then return reply end
  replies[#replies + 1] = reply
  replies[#replies + 1] = before
end
-- The clock comes last: before Redis 5, a script could not write after asking for it.
replies[1] = clock or #ARGV % 4 == 1 and redis.call('TIME')
return replies
