"""What every receiver is sent, evaluation by evaluation: lines of values, faults and changes on a simulated clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import stamina

from collector.alerts.dispatch import in_batches
from collector.alerts.engine import Engine
from collector.alerts.ledger import Silence, new_id
from collector.alerts.notify import Notification
from collector.alerts.rulebook import RuleBook
from collector.alerts.state import State
from collector.engine.duckdb.store import Store
from collector.errors import Unavailable
from collector.times import SECOND
from tests.recorded import HOUR, MINUTE, NOW
from tests.test_alert_engine import Values

FILE = """
rules:
  - {{name: {name}, measure: errors, by: [tool], condition: "> 3", {rule}}}
  - {{name: outage, measure: p95_ms, by: [tool], condition: "> 3", inhibits: [broken]}}
receivers:
  a: {{webhook: "http://127.0.0.1:1/a", group_interval: 0s, {receiver}}}
  b: {{webhook: "http://127.0.0.1:1/b", group_interval: 0s, {receiver}}}
"""

# Each line is `steps | states | messages`. Steps: `x=4` is tool x's value from then on (`x=` none, `outage/x=4` for
# the other rule), `+5m` or `-5m` moves the clock (15 s if none is given), `*60` evaluates 60 times, `down:b` and
# `up:b` a receiver, `silence:10m`, `restart`, `reload` (the same rules again), `remove`, `rename:NAME`, `restore` the
# rule. Then states after the last evaluation: P pending, F firing, R resolved but not yet sent to everybody. Last
# all accepted messages: the receiver (`ab`: each of both), + for firing, - for resolved; `,` between messages.
CASES: list[tuple[str, dict[str, str], str]] = [
    (
        "`for` goes on over a restart",
        {"rule": "for: 1m"},
        """x=4            | xP |
           *2             | xP |
           restart        | xP |
           restart        | xF | ab +x
           restart        | xF |
           restart x=1    |    | ab -x""",
    ),
    (
        "a reload disturbs no `for`",
        {"rule": "for: 1m"},
        """x=4            | xP |
           reload *3      | xP |
           reload         | xF | ab +x
           reload         | xF |
           reload x=1     |    | ab -x""",
    ),
    (
        "a stop longer than five minutes and `for` starts `for` again",
        {"rule": "for: 1m"},
        """x=4            | xP |
           +10m restart   | xP |
           *3             | xP |
                          | xF | ab +x""",
    ),
    (
        "`keep_firing_for` goes on over a restart",
        {"rule": "keep_firing_for: 1m"},
        """x=4            | xF | ab +x
           x=1 *2         | xF |
           restart        | xF |
           restart        |    | ab -x""",
    ),
    (
        "`keep_firing_for` outlasts a gap in the data, and what comes back meanwhile is the same firing",
        {"rule": "keep_firing_for: 1m"},
        """x=4            | xF | ab +x
           x= *3          | xF |
           x=4 restart    | xF |
           x= *3          | xF |
           restart        |    | ab -x""",
    ),
    (
        "`group_wait` goes on over a restart",
        {"receiver": "group_wait: 1m"},
        """x=4            | xF |
           restart y=4    | xF yF |
           restart *2     | xF yF |
           restart        | xF yF | ab +x+y
           *8             | xF yF |""",
    ),
    (
        "what resolves within `group_wait` is told to nobody, with a restart or without",
        {"receiver": "group_wait: 1m"},
        """x=4 y=4        | xF yF |
           x=1            | yF |
           restart y=1    |    |
           +10m           |    |""",
    ),
    (
        "`group_interval` goes on over a restart",
        {"receiver": "group_interval: 5m"},
        """x=4            | xF | ab +x
           restart y=4    | xF yF |
           restart *18    | xF yF |
           restart        | xF yF | ab +x+y""",
    ),
    (
        "flapping sends one message for each `group_interval`",
        {"receiver": "group_interval: 5m"},
        """x=4            | xF | ab +x
           x=1            | xR |
           x=4            | xF |
           x=1            | xR |
           x=4            | xF |
           +4m            | xF | ab +x
           x=1            | xR |
           +5m            |    | ab -x""",
    ),
    (
        "`repeat` goes on over a restart",
        {"receiver": "repeat: 1h"},
        """x=4            | xF | ab +x
           +59m restart   | xF |
           +59s restart   | xF |
           +1s restart    | xF | ab +x
           restart        | xF |""",
    ),
    (
        "a stop over several repeats repeats once",
        {"receiver": "repeat: 1h"},
        """x=4            | xF | ab +x
           restart +10h   | xF | ab +x
           *10            | xF |""",
    ),
    (
        "what fires and resolves while a receiver is down for an hour is told to the other alone",
        {},
        """down:b x=4     | xF | a +x
           +10m           | xF |
           x=1            |    | a -x
           +50m           |    |
           up:b +5m       |    |""",
    ),
    (
        "what was told before a receiver went down for an hour is closed when it is up",
        {},
        """x=4            | xF | ab +x
           down:b x=1     | xR | a -x
           +1m *60        | xR |
           restart        | xR |
           up:b +5m       |    | b -x
           +5m            |    |""",
    ),
    (
        "what was told is closed although it fired and resolved again while the receiver was down",
        {},
        """x=4            | xF | ab +x
           down:b x=1     | xR | a -x
           x=4            | xF | a +x
           x=1            | xR | a -x
           +1h            | xR |
           up:b +5m       |    | b -x
           +5m            |    |""",
    ),
    (
        "what fires anew after a receiver was down is told as one message, not as its history",
        {},
        """x=4            | xF | ab +x
           down:b x=1     | xR | a -x
           x=4            | xF | a +x
           +1h up:b       | xF | b +x
           x=1            |    | ab -x""",
    ),
    (
        "a receiver that is down for an hour is no reason for a storm: all that fires comes in one message",
        {},
        """down:b x=4     | xF | a +x
           y=4            | xF yF | a +x+y
           z=4 +1m *60    | xF yF zF | a +x+y+z
           up:b x=1 +5m   | yF zF | a -x+y+z, b +y+z
           *20            | yF zF |""",
    ),
    (
        "one receiver fails and a restart comes: the other hears nothing twice",
        {},
        """down:b x=4     | xF | a +x
           restart        | xF |
           restart        | xF |
           restart up:b   | xF | b +x
           restart x=1    |    | ab -x""",
    ),
    (
        "a resolution that one receiver missed is told after a restart to that one alone",
        {},
        """x=4            | xF | ab +x
           down:b x=1     | xR | a -x
           restart        | xR |
           restart up:b   |    | b -x
           restart        |    |""",
    ),
    (
        "a resolution that could not be told for a day is given up",
        {},
        """x=4            | xF | ab +x
           down:b x=1     | xR | a -x
           +23h           | xR |
           +2h            |    |
           up:b +1h       |    |""",
    ),
    (
        "a rule that is removed resolves what fires, and drops what is pending",
        {"rule": "for: 15s"},
        """x=4            | xP |
           y=4            | xF yP | ab +x
           remove         |    | ab -x
           restore        | xP yP |
                          | xF yF | ab +x+y""",
    ),
    (
        "a rule that is removed while a receiver is down is closed there too, after a restart",
        {},
        """x=4            | xF | ab +x
           down:b remove  | xR | a -x
           restart        | xR |
           +5m up:b       |    | b -x""",
    ),
    (
        "a rule under another name is another rule",
        {},
        """x=4            | xF | ab +x
           rename:worse   | worse/xF | a -x, a +worse/x, b -x, b +worse/x
           x=1            |    | ab -worse/x""",
    ),
    (
        "a rule that comes back within a stop has never been away",
        {},
        """x=4                    | xF | ab +x
           remove restore restart | xF |
           x=1                    |    | ab -x""",
    ),
    (
        "inhibition that starts while an alert fires stops its repeats; when it ends, the repeat is due",
        {"receiver": "repeat: 1h"},
        """x=4            | xF | ab +x
           outage/x=4     | outage/xF xF | ab +outage/x
           +1h            | outage/xF xF | ab +outage/x
           restart        | outage/xF xF |
           outage/x=1     | xF | a +x, a -outage/x, b +x, b -outage/x
           *5             | xF |""",
    ),
    (
        "what fires and resolves while it is inhibited is told to nobody",
        {},
        """outage/x=4     | outage/xF | ab +outage/x
           x=4            | outage/xF xF |
           restart x=1    | outage/xF |
           outage/x=1     |    | ab -outage/x""",
    ),
    (
        "what was told before it was inhibited is closed",
        {},
        """x=4            | xF | ab +x
           outage/x=4     | outage/xF xF | ab +outage/x
           restart x=1    | outage/xF | ab -x
           outage/x=1     |    | ab -outage/x""",
    ),
    (
        "a silence that ends while an alert fires lets it be told once",
        {},
        """x=1            |    |
           silence:10m x=4 | xF |
           restart        | xF |
           +9m            | xF |
           +30s           | xF | ab +x
           *5             | xF |""",
    ),
    (
        "a silence that starts while an alert fires stops its repeats; when it ends, the repeat is due",
        {"receiver": "repeat: 1h"},
        """x=4            | xF | ab +x
           silence:2h     | xF |
           +70m           | xF |
           +50m restart   | xF | ab +x
           *5             | xF |""",
    ),
    (
        "what was told is closed although it fired and resolved again under a silence",
        {"receiver": "group_interval: 5m"},
        """x=4            | xF | ab +x
           silence:1h x=1 | xR |
           x=4            | xF |
           x=1            | xR |
           +5m            |    | ab -x""",
    ),
    (
        "a clock that is set back starts `for` again",
        {"rule": "for: 1m"},
        """x=4 *3         | xP |
           -1h            | xP |
           *3             | xP |
                          | xF | ab +x
           x=1            |    | ab -x""",
    ),
    (
        "a clock that is set back holds up no resolution",
        {},
        """x=4            | xF | ab +x
           -1h x=1        |    | ab -x""",
    ),
    (
        "a clock that is set back starts `keep_firing_for` again",
        {"rule": "keep_firing_for: 1m"},
        """x=4            | xF | ab +x
           -1h x=1        | xF |
           *3             | xF |
                          |    | ab -x""",
    ),
    (
        "a clock that is set back holds up no message beyond `group_interval`",
        {"receiver": "group_interval: 5m"},
        """x=4            | xF | ab +x
           -1h y=4        | xF yF |
           +5m            | xF yF | ab +x+y""",
    ),
    (
        "a clock that is set back holds up no message that waits for its group",
        {"receiver": "group_wait: 1m"},
        """x=4            | xF |
           -1h            | xF | ab +x
           *5             | xF |""",
    ),
    (
        "a clock that is set back while the collector is stopped starts `repeat` again",
        {"receiver": "repeat: 1h"},
        """x=4            | xF | ab +x
           -10h restart   | xF |
           +59m           | xF |
           +1m            | xF | ab +x""",
    ),
    (
        "a clock that is set back leaves no receiver alone for longer",
        {},
        """down:b x=4     | xF | a +x
           +1m *9         | xF |
           -1h up:b       | xF | b +x""",
    ),
]


class Case:
    """A store, a rule file, two receivers and a clock."""

    def __init__(self, store: Store, path: Path, rule: str = "", receiver: str = "") -> None:
        self.store, self.path = store, path
        self.fields = {"rule": rule or "for: 0s", "receiver": receiver or "repeat: 4h"}
        self.now_ns = NOW
        self.values = Values()
        self.measured: dict[str, dict[str, float]] = {"errors": {}, "p95_ms": {}}
        self.down: set[str] = set()
        self.told: list[str] = []
        self.writes = 0
        self.write("broken")
        self.start()

    def write(self, name: str) -> None:
        """Writes a file of a different size each time, so that coarse file times cannot hide the change."""
        # A receiver's own `group_interval` replaces the default.
        text = FILE if "group_interval" not in self.fields["receiver"] else FILE.replace("group_interval: 0s, ", "")
        if name != "broken":
            text = text.replace(", inhibits: [broken]", "")
        lines = text.format(name=name, **self.fields).splitlines()
        self.writes += 1
        self.path.write_text("\n".join(line for line in lines if "name: ," not in line) + "\n" * self.writes)

    def start(self) -> None:
        self.engine = Engine(
            self.store, RuleBook(self.path), self.values, self.take, scrub=str, clock=lambda: self.now_ns
        )

    def take(self, message: Notification) -> None:
        if message.receiver.name in self.down:
            raise Unavailable("answered 503")
        alerts = [("+" if item.firing else "-") + brief(item.alert.rule, item.labels["tool"]) for item in message.items]
        self.told.append(f"{message.receiver.name} {''.join(alerts)}")

    def do(self, steps: str) -> None:
        """All steps of a line and its evaluations."""
        after_ns, times = 15 * SECOND, 1
        for word in steps.split():
            verb, _, what = word.partition(":")
            if tool := re.fullmatch(r"(outage/)?(\w)=(\d*)", word):
                self.value("p95_ms" if tool[1] else "errors", tool[2], tool[3])
            elif word[0] in "+-":
                after_ns = duration(word)
            elif word[0] == "*":
                times = int(word[1:])
            elif verb == "silence":
                end_ns = self.now_ns + duration(what)
                self.engine.ledger.add_silence(Silence(new_id(), "broken", (), "ann", "known", self.now_ns, end_ns))
            elif verb == "down":
                self.down.add(what)
            elif verb == "up":
                self.down.remove(what)
            elif verb == "restart":
                self.start()
            else:
                self.write({"reload": "broken", "restore": "broken", "remove": "", "rename": what}[verb])
        for _ in range(times):
            self.now_ns += after_ns
            for batch in in_batches(self.engine.evaluate(self.now_ns)).values():
                self.engine.deliver(batch)

    def value(self, measure: str, tool: str, value: str) -> None:
        self.measured[measure].pop(tool, None)
        if value:
            self.measured[measure][tool] = float(value)
        self.values.set(measure, **self.measured[measure])

    def states(self) -> str:
        """States after the messages were sent: a resolution that everybody knows of is gone."""
        engine = self.engine
        return " ".join(
            sorted(
                brief(rule, dict(labels)["tool"]) + "RPF"[alert.state]
                for (rule, labels), alert in engine.alerts.items()
                if alert.state is not State.INACTIVE
                or engine.dispatch.awaited(alert, engine.book.file.receivers, self.now_ns)
            )
        )


def brief(rule: str, tool: str) -> str:
    return tool if rule == "broken" else f"{rule}/{tool}"


def duration(text: str) -> int:
    unit = {"s": SECOND, "m": MINUTE, "h": HOUR}[text[-1]]
    return int(text[:-1]) * unit


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """Removes the pauses before second attempts."""
    with stamina.set_testing(True, attempts=2):
        yield


@pytest.mark.parametrize(("fields", "lines"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_states_and_messages(tmp_path: Path, fields: dict[str, str], lines: str) -> None:
    store = Store.open("duckdb://:memory:")
    case = Case(store, tmp_path / "alerts.yaml", **fields)
    expected, found = [], []
    for line in lines.splitlines():
        steps, states, messages = (part.strip() for part in line.split("|"))
        case.told.clear()
        case.do(steps)
        expected.append((steps, states, spelled_out(messages)))
        found.append((steps, case.states(), sorted(case.told)))
    store.close()
    assert found == expected


def spelled_out(messages: str) -> list[str]:
    """The messages of a line, one for each receiver, in order of the receivers."""
    told = [message.split() for message in messages.split(",") if message]
    return sorted(f"{receiver} {alerts}" for receivers, alerts in told for receiver in receivers)
