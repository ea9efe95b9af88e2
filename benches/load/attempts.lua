-- The same bytes for each request, or a header of its own in each; and the results as one line of JSON (wrk's own text has no
-- p99.9).
local file = assert(io.open("@REQUEST@", "rb"))
local bytes = file:read("*a")
file:close()
local line, behind = bytes:match("^(.-\r\n)(.*)$")
local differs, number = @DIFFERS@, 0

function request()
    if not differs then
        return bytes
    end
    number = number + 1
    return string.format("%sX-Number: %09d\r\n%s", line, number, behind)
end

-- Milliseconds from an answer to the next request.
if @PAUSE@ > 0 then
    function delay()
        return @PAUSE@
    end
end

function done(summary, latency, requests)
    local e = summary.errors
    io.write(string.format(
        '\n{"requests":%d,"micros":%d,"p50":%d,"p99":%d,"p999":%d,"not_2xx":%d,"broken":%d}\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        latency:percentile(99.9), e.status, e.connect + e.read + e.write + e.timeout))
end
