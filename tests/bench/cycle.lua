-- The life cycle of messages over AWS JSON 1.0: send, receive, delete what was received, on queues in turn.
-- usage: wrk … -s cycle.lua URL -- QUEUES BATCH BYTES GROUPS RUN
-- QUEUES is a file with a queue's URL a line; GROUPS is the number of groups of all FIFO queues together, one
-- a queue at least, 0 for standard queues; RUN makes deduplication ids unlike those of other runs. Prints one
-- line of JSON.
--
-- wrk does not say to which request an answer belongs. So each body begins with the number of its queue, and
-- deletes are counted as they are asked for: one that fails is an error, and no run with errors counts.
local threads = {}
local urls, sends, receipts, turn, sending = {}, {}, {}, 0, false
local batch, padding, groups, run
-- The messages of each FIFO queue.
local grouped = {}
-- Of many queues, those are received from whose send has been answered: more than there are connections.
local LAG = 100

function setup(thread) table.insert(threads, thread) end

function init(arguments)
  for url in io.lines(arguments[1]) do urls[#urls + 1] = url end
  batch, groups, run = tonumber(arguments[2]), tonumber(arguments[4]), arguments[5]
  padding = string.rep("x", tonumber(arguments[3]))
  sent, received, deleted, failed, message = 0, 0, 0, 0, 0
end

local function post(action, parameters)
  return wrk.format("POST", "/", {
    ["Content-Type"] = "application/x-amz-json-1.0",
    ["X-Amz-Target"] = "AmazonSQS." .. action,
    ["Authorization"] = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/sqs/aws4_request, "
      .. "SignedHeaders=host, Signature=0",
  }, parameters)
end

local function entry(queue)
  local number = queue .. " "
  local text = '"MessageBody":"' .. number .. padding:sub(#number + 1) .. '"'
  if groups > 0 then
    message = message + 1
    grouped[queue] = (grouped[queue] or 0) + 1
    local own = math.max(1, math.floor((groups - queue) / #urls) + 1)
    text = text .. ',"MessageGroupId":"group-' .. grouped[queue] % own
      .. '","MessageDeduplicationId":"' .. run .. "-" .. message .. '"'
  end
  return text
end

local function send(queue)
  if sends[queue] then return sends[queue] end
  local parameters
  if batch == 1 then
    parameters = '{"QueueUrl":"' .. urls[queue] .. '",' .. entry(queue) .. "}"
  else
    local entries = {}
    for i = 1, batch do entries[i] = '{"Id":"' .. i .. '",' .. entry(queue) .. "}" end
    parameters = '{"QueueUrl":"' .. urls[queue] .. '","Entries":[' .. table.concat(entries, ",") .. "]}"
  end
  if groups == 0 then sends[queue] = parameters end
  return parameters
end

local function delete(queue, handles)
  deleted = deleted + #handles
  if batch == 1 then
    return post("DeleteMessage", '{"QueueUrl":"' .. urls[queue] .. '","ReceiptHandle":"' .. handles[1] .. '"}')
  end
  local entries = {}
  for i, handle in ipairs(handles) do entries[i] = '{"Id":"' .. i .. '","ReceiptHandle":"' .. handle .. '"}' end
  return post("DeleteMessageBatch", '{"QueueUrl":"' .. urls[queue] .. '","Entries":[' .. table.concat(entries, ",") .. "]}")
end

function request()
  local got = table.remove(receipts)
  if got then return delete(got.queue, got.handles) end
  sending = not sending
  if sending then
    turn = turn % #urls + 1
    sent = sent + batch
    return post(batch == 1 and "SendMessage" or "SendMessageBatch", send(turn))
  end
  local earlier = (turn - 1 - LAG) % #urls + 1
  return post("ReceiveMessage", '{"QueueUrl":"' .. urls[earlier] .. '","MaxNumberOfMessages":' .. batch .. ',"VisibilityTimeout":600}')
end

function response(status, _, body)
  if status ~= 200 or body:find('"Failed"%s*:%s*%[%s*{') then
    failed = failed + 1
    if failed == 1 then why = status .. " " .. body:sub(1, 300) end
    return
  end
  if not body:find('"ReceiptHandle"', 1, true) then return end
  local handles = {}
  for handle in body:gmatch('"ReceiptHandle"%s*:%s*"([^"]+)"') do handles[#handles + 1] = handle end
  received = received + #handles
  table.insert(receipts, {queue = tonumber(body:match('"Body"%s*:%s*"(%d+) ')), handles = handles})
end

function done(summary, latency)
  local total = {}
  for _, name in ipairs({"sent", "received", "deleted", "failed"}) do
    total[name] = 0
    for _, thread in ipairs(threads) do total[name] = total[name] + thread:get(name) end
  end
  local first = ""
  for _, thread in ipairs(threads) do first = thread:get("why") or first end
  local lost = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  print(string.format(
    '{"seconds": %.6f, "requests": %d, "sent": %d, "received": %d, "deleted": %d, "failed": %d, "lost": %d, '
      .. '"p50_ms": %.3f, "p99_ms": %.3f, "why": "%s"}',
    summary.duration / 1e6, summary.requests, total.sent, total.received, total.deleted, total.failed, lost,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, (first:gsub('[\\"%c]', "'"))))
end
