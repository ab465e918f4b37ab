"""The addresses of the query API as one table: what each takes, and the query that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from collector.api import parameters as take
from collector.api.parameters import Parameter
from collector.query.breakdowns import MEASURES, breakdown, bucket_of, timeseries, values
from collector.query.changes import changes
from collector.query.check import check
from collector.query.compare import compare
from collector.query.costs import costs
from collector.query.filters import Selection
from collector.query.groups import groups
from collector.query.lessons import find
from collector.query.provenance import caution
from collector.query.queries import (
    Complete,
    add_remedies,
    beside_session,
    event,
    events,
    linked,
    next_events,
    session_events,
    sources,
)
from collector.query.ranking import ranking
from collector.query.retries import curve, retries, storms
from collector.query.search import search, told
from collector.query.sessions import sessions
from collector.query.signals import agreement, signals
from collector.query.statement import Answer
from collector.query.streaks import Scope, limits, streaks, summary
from collector.query.texts import texts, wordings
from collector.query.trials import trials
from collector.query.wrong_parameters import wrong_parameters

Options = Mapping[str, Any]
EVER = "1970-01-01"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address. `since` is the default start of its range.

    An answer is a list, unless `one` names what it is: then it is a single row, or 404. `more` is given the
    application's state, selection and options before the rows are read; it returns what completes the body.
    """

    path: str
    summary: str
    takes: tuple[Parameter, ...]
    ask: Callable[[Selection, Options], Answer]
    since: str = "-24h"
    one: str = ""
    filters: bool = True
    raw: bool = False  # it shows single events, which is noted in the audit log
    more: Callable[[Any, Selection, Options], Complete] = lambda state, selection, options: lambda body, rows: None


def _scope(options: Options) -> Scope:
    return Scope(options["scope"], options["kind"], options.get("mistake_limit"))


def _measures(options: Options) -> list[str]:
    return [name for name in options["measures"] if name in MEASURES]


ENDPOINTS = (
    Endpoint(
        "/breakdown", "Calls, errors and error rate by dimension",
        (take.BY, take.MEASURES_NAMED, take.PREVIOUS, take.SORT, take.LIMIT),
        lambda s, o: breakdown(
            s, o["by"], _measures(o), previous=o["previous"], sort=o["sort"], limit=o["limit"]),
    ),
    Endpoint(
        "/timeseries", "Calls, errors and error rate over time, oldest first",
        (take.BUCKET, take.BY, take.MEASURES_NAMED, take.PREVIOUS, take.SORT, take.ALL),
        lambda s, o: timeseries(
            s, bucket_of(s, o["bucket"]), o["by"], _measures(o), previous=o["previous"], sort=o["sort"],
            limit=o["limit"]),
    ),
    Endpoint(
        "/compare", "Two periods or two values of a dimension compared: difference, interval, verdict",
        (take.MEASURE, take.COMPARED_DIMENSION, take.A, take.B, take.BY, take.sort_by("-difference"), take.LIMIT),
        lambda s, o: compare(
            s, o["measure"], o["by"], dimension=o["dimension"], a=o["a"], b=o["b"], sort=o["sort"],
            limit=o["limit"]),
        more=caution,
    ),
    Endpoint(
        "/trials", "Trials of evaluations: each session with its task, its success, and its part of each measure",
        (take.OF_TRIALS, take.TASK, take.SUCCEEDED, take.ALL),
        lambda s, o: trials(s, o["measure"], o["task_from"], o["success_from"], o["limit"]), since="-30d",
    ),
    Endpoint(
        "/ranking", "Models, versions, agents or providers by their mistakes in a hundred calls, also at equal tools",
        (take.RANKED, take.sort_by("-per_100"), take.LIMIT),
        lambda s, o: ranking(s, o["by"], o["sort"], o["limit"]),
    ),
    Endpoint(
        "/texts", "Error texts, and what the model did after each: repaired, changed, repeated, other tool, gave up",
        (take.TEXTS_BY, take.sort_by("-gave_up"), take.LIMIT),
        lambda s, o: texts(s, o["by"], o["sort"], o["limit"]),
    ),
    Endpoint(
        "/texts/wordings", "Each error text beside the one before it, at equal class, tool and models",
        (take.sort_by("-difference"), take.LIMIT),
        lambda s, o: wordings(s, o["sort"], o["limit"]),
    ),
    Endpoint(
        "/parameters", "Parameters that are missing or wrong most often, by tool, from the texts of errors",
        (take.sort_by("-errors"), take.LIMIT),
        lambda s, o: wrong_parameters(s, o["sort"], o["limit"]),
    ),
    Endpoint(
        "/changes", "Which values of which dimensions explain a rise or fall in errors since the period before",
        (take.CHANGED, take.BY_CHANGED, take.sort_by("-contribution"), take.LIMIT),
        lambda s, o: changes(s, o["measure"], o["by"], sort=o["sort"], limit=o["limit"]), more=caution,
    ),
    Endpoint(
        "/values/{dimension:str}", "Values of a dimension among the events, most frequent first",
        (take.DIMENSION, take.CONTAINS, take.sort_by("value"), take.LIMIT),
        lambda s, o: values(s, o["dimension"], o["contains"], o["sort"], o["limit"]),
    ),
    Endpoint(
        "/events", "Complete events, newest first",
        (take.LIMIT, take.CURSOR, take.AFTER, take.ORDER),
        lambda s, o: events(s, o["limit"], cursor=o["cursor"], after=o["after"], sort=o["sort"]),
        more=next_events, raw=True,
    ),
    Endpoint(
        "/events/{event_id:str}", "One complete event",
        (take.EVENT_ID,),
        lambda s, o: event(o["event_id"], s.failure_only, s.clock_ns), one="event", filters=False,
        more=linked, raw=True,
    ),
    Endpoint(
        "/streaks", "Mistakes in a row",
        (take.SCOPE, take.KIND, take.MIN_LENGTH, take.STREAK_STATE, take.MISTAKE_LIMIT, take.sort_by("-length"),
         take.LIMIT),
        lambda s, o: streaks(
            s, _scope(o), min_length=o["min_length"], state=o["state"], sort=o["sort"], limit=o["limit"]),
    ),
    Endpoint(
        "/streaks/summary", "Per length: streaks that reached it, the share that went on (hazard), and their states",
        (take.SCOPE, take.KIND, take.PREVIOUS, take.sort_by("-length"), take.LIMIT),
        lambda s, o: summary(s, _scope(o), o["sort"], o["limit"], previous=o["previous"]),
    ),
    Endpoint(
        "/streaks/limits", "What a limit of n mistakes in a row would have done, for every n",
        (take.SCOPE, take.KIND, take.BY_ERROR, take.PREVIOUS, take.sort_by("-mistake_limit"), take.MANY),
        lambda s, o: limits(s, _scope(o), o["by"], o["sort"], o["limit"], previous=o["previous"]),
    ),
    Endpoint(
        "/streaks/signals", "What agents report about their own streaks, beside our count at that moment",
        (take.KIND, take.sort_by("-time"), take.LIMIT),
        lambda s, o: signals(s, o["kind"], o["sort"], o["limit"]),
    ),
    Endpoint(
        "/streaks/agreement", "How often agents' own counts are equal to ours, and why they differ",
        (take.KIND, take.sort_by("-signals"), take.LIMIT),
        lambda s, o: agreement(s, o["kind"], o["sort"], o["limit"]),
    ),
    Endpoint(
        "/retries", "What became of errors: retried, recovered, and what was said about retrying",
        (take.BY_ERROR, take.PREVIOUS, take.sort_by("-errors"), take.LIMIT),
        lambda s, o: retries(s, o["by"], o["sort"], o["limit"], previous=o["previous"]),
    ),
    Endpoint(
        "/retries/curve", "Share of the retried errors that recovered, by number of attempts and by seconds",
        (take.BY_ERROR, take.PREVIOUS, take.sort_by("-retried"), take.MANY),
        lambda s, o: curve(s, o["by"], o["sort"], o["limit"], previous=o["previous"]),
    ),
    Endpoint(
        "/retries/storms", "Bursts of errors of one class, and whether agents waited as long as required",
        (take.BY_ERROR, take.STORM_WINDOW, take.LEAST, take.STORM_STATE, take.sort_by("-started"), take.LIMIT),
        lambda s, o: storms(
            s, o["window"], o["least"], o["by"], state=o["state"], sort=o["sort"], limit=o["limit"]),
    ),
    Endpoint(
        "/costs",
        "Calls, time, tokens and money spent on streaks of mistakes, on asking for failed calls and on retries in vain;"
        " and who does not tell them",
        (take.BY_ERROR, take.sort_by("-cost_usd"), take.LIMIT),
        lambda s, o: costs(s, o["by"], o["sort"], o["limit"]),
    ),
    Endpoint(
        "/groups", "Groups of errors with the same class, tool and message template",
        (take.GROUP_MEASURES, take.GROUP_STATE, take.sort_by("-events"), take.LIMIT),
        lambda s, o: groups(s, o["measures"], state=o["state"], sort=o["sort"], limit=o["limit"]),
    ),
    Endpoint(
        "/groups/{fingerprint:str}", "One group",
        (take.FINGERPRINT,),
        lambda s, o: groups(s, ["recovery_rate"], fingerprint=o["fingerprint"]), since=EVER, one="group",
    ),
    Endpoint(
        "/sessions", "Sessions: how each ended, its counts, streaks, tokens and money, and its last outcomes",
        (take.SESSION_STATE, take.sort_by("-worst_streak"), take.LIMIT),
        lambda s, o: sessions(s, o["sort"], o["limit"], o["state"]),
    ),
    Endpoint(
        "/sessions/{session:path}", "The events of one session in order, and how it ended",
        (take.SESSION, take.COLUMNS, take.CURSOR_OF_SESSION, take.ALL),
        lambda s, o: session_events(s, o["session"], o["limit"], o["cursor"], o["columns"]), since=EVER,
        more=beside_session, raw=True,
    ),
    Endpoint(
        "/check", "Whether calls like one have failed, and what worked next",
        (take.COMMAND, take.ON_TARGET, take.OF_TOOL),
        lambda s, o: check(s, o["command"], o["on"], o["of"]), since="-60d", one="call",
    ),
    Endpoint(
        "/lessons", "Recurring mistakes that a sentence, a permission or a setting would prevent, with their evidence",
        (take.LESSON_STATE, take.sort_by("-sessions"), take.LIMIT),
        lambda s, o: find(s, state=o["state"], sort=o["sort"], limit=o["limit"]), since="-60d",
    ),
    Endpoint(
        "/lessons/{id:str}", "One lesson",
        (take.LESSON,),
        lambda s, o: find(s, id=o["id"]), since="-60d", one="lesson",
    ),
    Endpoint(
        "/search", "What a few characters name: ids by their beginning; names, groups and messages by a part",
        (take.LOOKED_FOR, take.EACH),
        lambda s, o: search(o["q"], o["limit"]), since=EVER, filters=False, more=told, raw=True,
    ),
    Endpoint(
        "/sources", "Senders, and the facts that each leaves out",
        (take.sort_by("-events"), take.LIMIT),
        lambda s, o: sources(s, o["sort"], o["limit"]), since=EVER, more=add_remedies,
    ),
)  # fmt: skip
GROUP = next(endpoint for endpoint in ENDPOINTS if endpoint.one == "group")
LESSON = next(endpoint for endpoint in ENDPOINTS if endpoint.one == "lesson")
