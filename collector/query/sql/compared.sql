-- For each measure, sums over the sessions of each side, from which the value and the variance between sessions follow.
select {keys}side, {sums}
from ({sessions})
group by {keys}side
