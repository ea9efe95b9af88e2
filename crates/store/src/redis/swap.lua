-- For each of KEYS, four of ARGV: reads the key; if its version is the first ('': if it does not exist), writes the second
-- for the third's milliseconds. Otherwise, if the fourth is a program and the record differs from the second in its state
-- only, steps that state. Without ARGV only reads.
-- Returns the clock, and for each key {1, version} if it wrote, {2, version, the record before} if it stepped at that
-- time, else {0, version, record}.
-- A version is the first eight bytes of a value; shorter values and other types get eight bytes of their own.
local clock

-- Whether it took the step.
local function step(key, new, program, record, state_at)
  -- A number of 64 bits is two of 32 here, because numbers of Lua are exact below 2^53 only.
  local unpack, WORD, at = struct.unpack, 4294967296, 2
  local function number()
    local high, low
    high, low, at = unpack('>I4I4', program, at)
    return high, low
  end
  local function less(ah, al, bh, bl)
    return ah < bh or ah == bh and al < bl
  end
  local function larger(ah, al, bh, bl)
    if less(ah, al, bh, bl) then return bh, bl end
    return ah, al
  end
  local function smaller(ah, al, bh, bl)
    if less(ah, al, bh, bl) then return ah, al end
    return bh, bl
  end
  local function plus(ah, al, bh, bl)
    local high, low = ah + bh, al + bl
    if low >= WORD then high, low = high + 1, low - WORD end
    if high >= WORD then return WORD - 1, WORD - 1 end
    return high, low
  end
  -- Not below zero.
  local function minus(ah, al, bh, bl)
    local high, low = ah - bh, al - bl
    if low < 0 then high, low = high - 1, low + WORD end
    if high < 0 then return 0, 0 end
    return high, low
  end

  clock = clock or redis.call('TIME')
  local micros = clock[1] * 1000000 + clock[2]
  local nh = math.floor(micros / WORD)
  local nl = (micros - nh * WORD) * 1000
  nh, nl = nh * 1000 + math.floor(nl / WORD), nl % WORD

  -- Each returns the next state if it has changed, or nothing: then the gate decides on what stands here.
  local function continuous(sh, sl)
    local hh, hl = number()
    local dh, dl = number()
    local deepest_h, deepest_l = plus(nh, nl, dh, dl)
    local has_debt, changed = dh + dl > 0, false
    while at <= #program do
      local kind = string.byte(program, at)
      at = at + 1
      local ah, al = number()
      local bh, bl = number()
      local th, tl = larger(sh, sl, nh, nl)
      local xh, xl = th, tl
      if kind == 1 then
        local wh, wl = minus(th, tl, bh, bl)
        wh, wl = minus(wh, wl, nh, nl)
        if not less(hh, hl, wh, wl) then
          xh, xl = plus(th, tl, ah, al)
        elseif has_debt then
          xh, xl = plus(th, tl, ah, al)
          xh, xl = smaller(xh, xl, deepest_h, deepest_l)
          xh, xl = larger(xh, xl, th, tl)
        end
        changed = changed or less(nh, nl, xh, xl) and (xh ~= sh or xl ~= sl)
      else
        local wh, wl = minus(bh, bl, nh, nl)
        wh, wl = smaller(wh, wl, ah, al)
        xh, xl = minus(th, tl, wh, wl)
        xh, xl = larger(xh, xl, nh, nl)
        changed = changed or xh ~= th or xl ~= tl
      end
      sh, sl = xh, xl
    end
    if changed then return sh, sl, sh, sl end
  end

  -- A period that has ended, is empty or has debt is left to the gate.
  local function interval(eh, el)
    local ph, pl = number()
    local _, quota = number()
    local _, debt = number()
    local th, taken = unpack('>I4I4', record, #record - 7)
    local rest_h, rest_l = minus(eh, el, nh, nl)
    if th > 0 or taken == 0 or taken > quota or rest_h + rest_l == 0 or less(ph, pl, rest_h, rest_l) then return end
    local changed = false
    while at <= #program do
      local kind = string.byte(program, at)
      at = at + 1
      local _, tokens = number()
      local bh, bl = number()
      local before = taken
      if kind == 1 and taken + tokens <= quota then
        taken = taken + tokens
      elseif kind == 1 then
        if debt > 0 then return end
      elseif bh == eh and bl == el or bh == WORD - 1 and bl == WORD - 1 then
        taken = math.max(taken - tokens, 0)
      end
      if taken == 0 then return end
      changed = changed or taken ~= before
    end
    if changed then return eh, el, eh, el, 0, taken end
  end

  -- The floor's token first, then the pool's. One that is refused with debt takes the pool's all the same.
  local function floor()
    local flh, fll = number()
    local fth, ftl = number()
    local fbh, fbl = number()
    local plh, pll = number()
    local pth, ptl = number()
    local pbh, pbl = number()
    local dh, dl = number()
    local deepest_h, deepest_l = plus(nh, nl, dh, dl)
    local ph, pl, fh, fl = unpack('>I4I4I4I4', record, #record - 15)
    local function is_far(h, l, ttl_h, ttl_l)
      h, l = minus(h, l, nh, nl)
      return less(ttl_h, ttl_l, h, l)
    end
    if is_far(ph, pl, plh, pll) or is_far(fh, fl, flh, fll) then return end
    local changed = false
    ph, pl = larger(ph, pl, nh, nl)
    fh, fl = larger(fh, fl, nh, nl)
    while at <= #program do
      local kind = string.byte(program, at)
      at = at + 1
      local ah, al = number()
      local bh, bl = number()
      local xh, xl, yh, yl = ph, pl, fh, fl
      if kind == 2 then
        local wh, wl = minus(bh, bl, nh, nl)
        wh, wl = smaller(wh, wl, ah, al)
        xh, xl = minus(ph, pl, wh, wl)
        xh, xl = larger(xh, xl, nh, nl)
      elseif not is_far(fh, fl, fbh, fbl) then
        yh, yl = plus(fh, fl, fth, ftl)
      elseif not is_far(ph, pl, pbh, pbl) then
        xh, xl = plus(ph, pl, pth, ptl)
      elseif dh + dl > 0 then
        xh, xl = plus(ph, pl, pth, ptl)
        xh, xl = smaller(xh, xl, deepest_h, deepest_l)
        xh, xl = larger(xh, xl, ph, pl)
      end
      changed = changed or xh ~= ph or xl ~= pl or yh ~= fh or yl ~= fl
      ph, pl, fh, fl = xh, xl, yh, yl
    end
    if changed then
      local full_h, full_l = larger(ph, pl, fh, fl)
      return full_h, full_l, full_h, full_l, ph, pl, fh, fl
    end
  end

  -- The time that the record names first: when its bucket is full. Beyond its longest life the clock was set back.
  local fh, fl = unpack('>I4I4', record, state_at - 8)
  local until_h, until_l = number()
  local lh, ll = number()
  local oldest_h, oldest_l = minus(fh, fl, lh, ll)
  local state = {}
  if fh + fl > 0 and micros < until_h * WORD + until_l and not less(nh, nl, oldest_h, oldest_l) then
    local shape = ({continuous, interval, floor})[string.byte(program)]
    state = {shape(fh, fl)}
  end
  if not state[1] then return false end
  local full_h, full_l = minus(state[1], state[2], nh, nl)
  -- Beyond 2^53 nanoseconds the sum is rounded, by far less than the millisecond that is added.
  local millis = math.max(math.floor((full_h * WORD + full_l) / 1000000) + 1, 1000)
  local stepped = string.sub(new, 1, state_at - 1)
  for word = 3, #state, 2 do
    stepped = stepped .. struct.pack('>I4I4', state[word], state[word + 1])
  end
  redis.call('SET', key, stepped, 'PX', string.format('%.0f', millis))
  return true
end

local function swap(key, expected, new, millis, program)
  local found = redis.pcall('GET', key)
  local version, record = '', false
  if type(found) == 'table' then
    if not string.find(found.err or '', 'WRONGTYPE', 1, true) then
      return found
    end
    version, record = string.rep('\255', 8), ''
  elseif found and #found >= 8 then
    version, record = string.sub(found, 1, 8), string.sub(found, 9, 65536)
  elseif found then
    version, record = string.char(128 + #found) .. found .. string.rep('\0', 7 - #found), found
  end
  -- What is only read is expected to have version nil, which no version equals.
  if version == expected then
    redis.call('SET', key, new, 'PX', millis)
    return {1, version}
  end
  local state_at = program and program ~= '' and #new - 8 * string.byte(program) + 1
  if state_at and record and #record + 8 == #new
    and string.sub(record, 1, state_at - 9) == string.sub(new, 9, state_at - 1)
    and (redis.REDIS_VERSION_NUM or redis.replicate_commands and redis.replicate_commands())
    and step(key, new, program, record, state_at) then
    return {2, string.sub(new, 1, 8), record}
  end
  return {0, version, record}
end

local replies = {false}
for at, key in ipairs(KEYS) do
  local reply = swap(key, ARGV[4 * at - 3], ARGV[4 * at - 2], ARGV[4 * at - 1], ARGV[4 * at])
  if reply.err then return reply end
  replies[at + 1] = reply
end
-- The clock comes last: before Redis 5, a script could not write after asking for it.
replies[1] = clock or redis.call('TIME')
return replies
