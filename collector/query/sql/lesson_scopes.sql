-- Sessions of each scope{and_model}, with its first and last call.
select coalesce(repository, service, '') as scope{model}, count(distinct session)::bigint as sessions, {first} as oldest, {last} as newest
from {source} where {where} and operation = 'tool' and session is not null
group by all
