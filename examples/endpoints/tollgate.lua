-- Asks the gate about a request, and answers what it refuses. For haproxy.cfg in this folder.

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
        if receipt then txn.http:req_set_header("X-Tollgate-Receipt", receipt[0]) end
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
