-- The sessions with streaks that reached {limit}.
select {keys}{side}, hash(project, service, session), {events}{marked}
from (select {firsts}project, service, session, ended as time_ns from ({streaks}) where length >= {limit})
