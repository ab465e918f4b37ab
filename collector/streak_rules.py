"""Rules of streaks and retry chains, which the derived tables and the queries share."""

from __future__ import annotations

from collector.times import DAY, HOUR

IDLE_NS = HOUR  # a streak ends when its session has no event for longer than this
WINDOW_NS = HOUR // 2  # length of an error's retry chain
LAST = 2**63 - 1  # stands for an absent sequence number: sorted last
# What a call acted on, for chains and streaks. A target that was found in an error's message would set it apart from
# calls that end well, which have no message.
ACTED_ON = "case when target_guessed is not true then target end"
ASKED_NS = DAY  # a request is taken for the one that asked for a call if that ended at most this much later
PATIENCE = 0.95  # of the wait that was asked for counts as waiting: clocks and durations are rounded
