-- The same bytes for each request, and the results as one line of JSON (wrk's own text has no p99.9).
local file = assert(io.open("@REQUEST@", "rb"))
local bytes = file:read("*a")
file:close()

function request()
    return bytes
end

function done(summary, latency, requests)
    local e = summary.errors
    io.write(string.format(
        '\n{"requests":%d,"micros":%d,"p50":%d,"p99":%d,"p999":%d,"not_2xx":%d,"broken":%d}\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        latency:percentile(99.9), e.status, e.connect + e.read + e.write + e.timeout))
end
