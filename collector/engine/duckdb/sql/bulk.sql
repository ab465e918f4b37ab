-- Events $low ≤ i < $high of a made-up month. Each is computed from its number alone, without sorting or joins of large tables, and the same seed
-- gives the same events. Eight events form a block with a random pattern of outcomes and repeated calls; twenty blocks form five sessions of 8 to
-- 72 events. Small tables (commands/bulk.py) define agents, tools and failures.
with numbered as (
  select i, i // 160 as party, i // 8 as block, i % 8 as nth,
    hash(i // 8, $seed) as dice, hash(i, $seed) as own, hash(i // 8, $seed, 1) as tool_dice,
    ((i // 8) % 20)::integer as part
  from range($low, $high) events(i)
),
placed as (
  select numbered.*,
    [0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4][part + 1] as member,
    (part - [0, 1, 3, 6, 11][member + 1]) * 8 + nth as step,
    hash(party, member, $seed) as key,
    (party + (key % 1000) / 1000.0) / $parties as share,
    patterns.outcomes[nth + 1] as drawn, patterns.calls[nth + 1]::integer as call
  from numbered join patterns on patterns.place = dice % $patterns
),
timed as (              -- busy by day and quiet by night; one session in thirty pauses for two hours
  select *,
    $start_ns + ($span_ns * (share + 0.8 * sin(share * $days * 2 * pi()) / ($days * 2 * pi())))::bigint
      + step * 15000000000 + (own % 9000000000)::bigint
      + case when key % 30 = 0 and step > 9 and share < 0.98 then 7200000000000 else 0 end as time_ns,
    hash(block, call, $seed, 2) as call_dice,
    nth = 0 and drawn = 'o' as model_call
  from placed
),
sent as (
  select timed.*, a.*, share > a.deployed as later,
    hash(time_ns // 14400000000000, $seed) % 9 = 0 and time_ns % 14400000000000 < 900000000000 as storm
  from timed join agents a on key % $shares >= a.low and key % $shares < a.high
),
used as (
  select sent.*, t.tool as called, t.tool_kind, t.mcp_server, t.targets, t.milliseconds,
    case
      when model_call then case when storm and own % 10 < 7 or own % 200 = 0 then 'error' else 'ok' end
      when drawn = 'o' and later and t.tool = sent.worse and own % 100 < 25 then 'error'
      else case drawn when 'o' then 'ok' when 'e' then 'error' when 'd' then 'denied' else 'cancelled' end
    end as outcome,
    case when t.targets is null then null
      else replace(replace(t.targets, '{a}', (call_dice % 37)::varchar), '{b}', (call_dice // 64 % 11)::varchar)
    end as target
  from sent join tools t on t.place = call_dice % $tools
),
failed as (
  select used.* exclude (target), case when not model_call then target end as target,
    f.* exclude (tool, low, high)
  from used left join failures f
    on used.outcome in ('error', 'denied')
    and f.tool = case when model_call then case when storm then '*storm' else '*model' end when used.outcome = 'denied' then '*denied' else called end
    and call_dice // 4096 % 100 >= f.low and call_dice // 4096 % 100 < f.high
)
insert into events by name
select time_ns, time_ns + 40000000 as received_ns, hash(i + $seed * 1099511627776) as event_id,
  source, case when source = 'codex' then 'log' else 'span' end as source_signal,
  service, case when later then later_version else version end as service_version,
  service || '-' || (key % 12)::varchar as service_instance, environment, agent, case when model_call then model end as model,
  case when model_call then 'record' end as model_from, case when model_call then provider end as provider,
  'ses-' || to_hex(key) as session, 'record' as session_source,
  case when key % 20 = 0 and step % 24 >= 16 then 'helper' end as subagent,
  'turn-' || (step // 6)::varchar as turn, 'call-' || to_hex(own) as call_id, step::bigint as sequence,
  case when source <> 'codex' then to_hex(key) || to_hex(hash(key)) end as trace_id,
  case when source <> 'codex' then to_hex(own) end as span_id,
  case when model_call then 'model' else 'tool' end as operation, outcome,
  case when not model_call then called end as tool, case when not model_call then tool_kind end as tool_kind,
  case when not model_call then mcp_server end as mcp_server, target,
  case when model_call then 'model' else 'tool' end as phase,
  domain, category, error_class, reported_class, classified_by, severity, attribution, recovery, mistake, retryable, fatal,
  case when source = 'kode-sdk' and error_class is not null then retryable end as retryable_declared,
  case when storm and model_call and outcome = 'error' then 2000 end as retry_after_ms, status_code,
  case when model_call then 4000 else milliseconds end * exp(((own >> 32) % 1000) / 300.0 - 1.7) as duration_ms,
  case when model_call then 2000 + (own % 30000)::bigint end as input_tokens,
  case when model_call then 50 + (own % 900)::bigint end as output_tokens,
  case when model_call then (2000 + own % 30000) * 3e-6 end as cost_usd,
  replace(replace(message, '{target}', coalesce(target, 'it')), '{n}', (own % 5000)::varchar) as message,
  suggestion, fingerprint, template,
  case when not model_call then '{"target":"' || coalesce(target, '') || '","n":' || (call_dice % 100)::varchar || '}' end as params,
  case when not model_call then
    case when dice // 128 % 3 = 0 then call_dice else hash(call_dice, nth) end end as params_hash,
  0 as redactions, 10 as report_rank, 1 as outcome_strength
from failed
