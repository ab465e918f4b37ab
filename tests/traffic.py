"""Traffic with a known story, as plain events."""

from datetime import datetime, timedelta


def two_versions(now: datetime) -> list[dict[str, str]]:
    """Two days of one coder: 40 sessions, of version 3.1 and, since 23 hours ago, of 3.2, whose diffs fail."""
    calls: list[dict[str, str]] = []
    for session in range(40):
        start = now - timedelta(hours=47) + timedelta(hours=session * 47 / 40)
        new = now - start < timedelta(hours=23)
        about = {"service": "coder", "service_version": "3.2" if new else "3.1", "session": f"c{session}", "model": "m"}
        for call in range(24):
            tool = ("read_file", "apply_diff", "run_command")[call % 3]
            failed = tool == "apply_diff" and (call % 6 == 1 if new else call == 1 and session % 2 == 0)
            when = (start + timedelta(seconds=5 * call)).isoformat()
            error = {"error_class": "ContentNotFoundError", "message": "The text to replace was not found"}
            calls.append(
                {**about, "tool": tool, "target": "a.py", "time": when, "outcome": "error" if failed else "ok"}
                | (error if failed else {})
            )
    return calls


def storm(now: datetime) -> list[dict[str, str]]:
    """A provider's rate limit, two hours ago: 40 refused requests of four sessions within a minute."""
    start = now - timedelta(hours=2)
    refused = {
        "operation": "model",
        "outcome": "error",
        "error_class": "RateLimitError",
        "message": "429",
        "service": "x",
    }
    return [
        refused | {"service": "x", "session": f"s{n % 4}", "time": (start + timedelta(seconds=1.2 * n)).isoformat()}
        for n in range(40)
    ]


def rule_file(window: str = "15m") -> str:
    """A rule file with one rule, which watches a class of errors of one tool of `two_versions`."""
    return f"""rules:
  - name: content-not-found
    measure: errors
    where: {{error_class: ContentNotFoundError, tool: apply_diff}}
    window: {window}
    condition: "> 10"
"""
