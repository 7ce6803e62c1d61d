-- A connection for each request: what it takes to accept one, and over TLS to shake hands.
-- usage: wrk … -s handshake.lua URL. Prints one line of JSON.
local threads = {}

function setup(thread) table.insert(threads, thread) end

function init() failed = 0 end

function request() return wrk.format("GET", "/health/live", { ["Connection"] = "close" }) end

function response(status) if status ~= 200 then failed = failed + 1 end end

function done(summary, latency)
  local failures = 0
  for _, thread in ipairs(threads) do failures = failures + thread:get("failed") end
  local lost = summary.errors.connect + summary.errors.write + summary.errors.timeout
  print(string.format(
    '{"seconds": %.6f, "requests": %d, "failed": %d, "lost": %d, "p50_ms": %.3f, "p99_ms": %.3f, "why": ""}',
    summary.duration / 1e6, summary.requests, failures, lost,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
