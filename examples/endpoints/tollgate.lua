-- Asks the gate about a request, answers what it refuses, and reports the head of the answer. For haproxy.cfg in this folder.

local gate = "http://127.0.0.1:9182/"

-- Framing is that of the question itself; what describes the request is set below.
local own = {
    ["connection"] = true, ["content-length"] = true, ["expect"] = true, ["host"] = true, ["keep-alive"] = true,
    ["te"] = true, ["transfer-encoding"] = true, ["upgrade"] = true,
}

local function is_own(name)
    return own[name] or name:find("^x%-original%-") or name:find("^x%-forwarded%-")
end

local function question(txn)
    local seen, headers = txn.http:req_get_headers(), {}
    for name, values in pairs(seen) do
        if not is_own(name) then
            headers[name] = {}
            for at = 0, #values do table.insert(headers[name], values[at]) end
        end
    end
    local host, length = seen["host"], seen["content-length"]
    -- A body without a header is seen because haproxy.cfg waits for it.
    local is_there = seen["transfer-encoding"] or txn.f:req_body_len() > 0
    local body = length and length[0] or (is_there and "present" or "0")
    headers["host"] = { host and host[0] or "" }
    headers["x-original-method"] = { txn.f:method() }
    headers["x-original-uri"] = { txn.f:pathq() }
    headers["x-original-body"] = { body }
    headers["x-forwarded-for"] = { txn.f:src() }
    headers["x-forwarded-proto"] = { txn.f:ssl_fc() == 1 and "https" or "http" }
    return headers
end

core.register_action("tollgate", { "http-req" }, function(txn)
    local answer = core.httpclient():get { url = gate, headers = question(txn), timeout = 10000 }
    if answer and answer.status == 200 then
        local receipt = answer.headers["x-tollgate-receipt"]
        if receipt then
            txn.http:req_set_header("X-Tollgate-Receipt", receipt[0])
            txn:set_var("txn.tollgate_receipt", receipt[0])
        end
        return
    end
    local reply = txn:reply()
    if answer and answer.status >= 400 and answer.status < 500 then
        reply:set_status(answer.status, answer.reason)
        for name, values in pairs(answer.headers) do
            if name ~= "connection" and name ~= "content-length" and name ~= "transfer-encoding" then
                for at = 0, #values do reply:add_header(name, values[at]) end
            end
        end
        reply:set_body(answer.body or "")
    else
        reply:set_status(503, "Service Unavailable")
        reply:add_header("retry-after", "1")
    end
    txn:done(reply)
end)

-- Each byte of a value as one character of JSON: not every value is UTF-8.
local function bytes(value)
    local text = value:gsub('[%c"\\\128-\255]', function(byte) return ("\\u%04x"):format(byte:byte()) end)
    return '"' .. text .. '"'
end

-- The reports on their way: beyond 1,000 one is dropped, and its attempt keeps its charge.
local under_way = 0

core.register_action("tollgate_outcome", { "http-res" }, function(txn)
    local receipt = txn:get_var("txn.tollgate_receipt")
    if not receipt or under_way >= 1000 then return end
    local headers = {}
    for name, values in pairs(txn.http:res_get_headers()) do
        for at = 0, #values do table.insert(headers, "[" .. bytes(name) .. "," .. bytes(values[at]) .. "]") end
    end
    local answer = ('{"status":%d,"headers":[%s]}'):format(txn.f:status(), table.concat(headers, ","))
    local body = ('{"receipt":%s,"answer":%s}'):format(bytes(receipt), answer)
    under_way = under_way + 1
    -- A task of its own: the answer does not wait for it.
    core.register_task(function()
        pcall(function() core.httpclient():post { url = gate .. "outcome", body = body, timeout = 1000 } end)
        under_way = under_way - 1
    end)
end)
