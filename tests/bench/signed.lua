-- Requests that were signed before, in turn; the answers are not looked into but for errors.
-- usage: wrk … -s signed.lua URL -- FILE
-- FILE has a request a line: action, X-Amz-Date, Authorization, body, with tabs between. Prints one line of JSON.
local threads = {}
local requests, turn = {}, 0

function setup(thread) table.insert(threads, thread) end

function init(arguments)
  failed = 0
  for line in io.lines(arguments[1]) do
    local action, date, authorization, body = line:match("^(.-)\t(.-)\t(.-)\t(.*)$")
    requests[#requests + 1] = wrk.format("POST", "/", {
      ["Content-Type"] = "application/x-amz-json-1.0",
      ["X-Amz-Target"] = "AmazonSQS." .. action,
      ["X-Amz-Date"] = date,
      ["Authorization"] = authorization,
    }, body)
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function response(status, _, body)
  if status ~= 200 then
    failed = failed + 1
    why = status .. " " .. body:sub(1, 300)
  end
end

function done(summary, latency)
  local failures, first = 0, ""
  for _, thread in ipairs(threads) do
    failures = failures + thread:get("failed")
    first = thread:get("why") or first
  end
  local lost = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  print(string.format(
    '{"seconds": %.6f, "requests": %d, "failed": %d, "lost": %d, "p50_ms": %.3f, "p99_ms": %.3f, "why": "%s"}',
    summary.duration / 1e6, summary.requests, failures, lost,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, (first:gsub('[\\"%c]', "'"))))
end
