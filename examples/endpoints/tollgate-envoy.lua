-- Envoy reports the head of each answer to the gate, for envoy.yaml in this folder.

-- Each byte of a value as one character of JSON: not every value is UTF-8.
local function bytes(value)
    local text = value:gsub('[%c"\\\128-\255]', function(byte) return ("\\u%04x"):format(byte:byte()) end)
    return '"' .. text .. '"'
end

function envoy_on_request(request)
    local receipt = request:headers():get("x-tollgate-receipt")
    if receipt then
        request:headers():remove("x-tollgate-receipt")
        request:streamInfo():dynamicMetadata():set("tollgate", "receipt", receipt)
    end
end

function envoy_on_response(response)
    local known, head = response:streamInfo():dynamicMetadata():get("tollgate"), response:headers()
    -- Answers of Envoy itself lack this header, and their attempts keep their charges.
    if not known or not head:get("x-envoy-upstream-service-time") then return end
    local headers = {}
    for name, value in pairs(head) do
        if name:sub(1, 1) ~= ":" then table.insert(headers, "[" .. bytes(name) .. "," .. bytes(value) .. "]") end
    end
    local answer = ('{"status":%s,"headers":[%s]}'):format(head:get(":status"), table.concat(headers, ","))
    local question = { [":method"] = "POST", [":path"] = "/outcome", [":authority"] = "tollgate" }
    local body = ('{"receipt":%s,"answer":%s}'):format(bytes(known.receipt), answer)
    -- The answer does not wait for it.
    response:httpCall("tollgate", question, body, { asynchronous = true, timeout_ms = 1000, send_xff = false })
end
