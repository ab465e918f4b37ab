-- What each session of each side has of the part and of the whole.
select {keys}side, {part} as part, {whole} as whole
from (select *, {side} as side from {source} where {where})
where side is not null and {among}
group by {keys}side, case when session is null then event_id else hash(service, session) end
