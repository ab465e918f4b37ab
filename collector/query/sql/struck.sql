-- The sessions with streaks that reached {limit}.
select {keys}{side}, hash(service, session), {events}{marked}
from (select {firsts}service, session, ended as time_ns from ({streaks}) where length >= {limit})
