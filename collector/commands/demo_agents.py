"""The agents of `misstep demo`, their tools, and how these fail. This is only data; demo.py uses it.

Arguments and messages contain made-up secrets, to show how secrets are redacted. They are assembled at run time,
because a scanner of this repository cannot know that they are made up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from misstep_sdk import AgentError, errors

Arguments = Callable[[Random], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Failure:
    """One way to fail. `lasts`: the chance that the next attempt fails too; `same`: that it is the identical call."""

    type: type[AgentError]
    message: str
    weight: float = 1.0
    lasts: float = 0.3
    same: float = 0.2

    @property
    def denied(self) -> bool:
        """Whether a person or a policy said no."""
        return issubclass(self.type, errors.ToolPermissionError)


@dataclass(frozen=True, slots=True)
class Tool:
    """`rate` is the share of calls that fail, in one of `failures`; `milliseconds` the median duration."""

    name: str
    arguments: Arguments
    rate: float
    failures: Sequence[Failure]
    milliseconds: float = 80.0
    mcp_server: str = ""


@dataclass(frozen=True, slots=True)
class Agent:
    """One service. From `deployed` on (a share of the last day), `later` replaces the fields that it names."""

    service: str
    version: str
    name: str
    model: str
    provider: str
    tools: Sequence[Tool]
    model_failures: Sequence[Failure] = ()
    model_rate: float = 0.02
    share: float = 1.0
    deployed: float = 2.0
    later: Mapping[str, Any] | None = None

    def at(self, moment: float) -> Agent:
        """The agent at a moment of the last day, from 0 to 1; below 0, before it."""
        return replace(self, **self.later) if self.later and moment >= self.deployed else self


def _letters(random: Random, count: int) -> str:
    return "".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", k=count))


def aws_key(random: Random) -> str:
    """Looks like an access key id."""
    return "AKIA" + "".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", k=16))


def github_token(random: Random) -> str:
    """Looks like a personal access token."""
    return "gh" + "p_" + _letters(random, 36)


FILES = (
    "src/app.py",
    "src/billing/invoice.py",
    "src/api/routes.ts",
    "tests/test_invoice.py",
    "README.md",
    "web/cart.tsx",
)
COMMANDS = ("pytest -q", "npm test", "git status", "ruff check .", "make build")


def _file(random: Random) -> dict[str, Any]:
    return {"path": f"/home/ann/shop/{random.choice(FILES)}"}


def _diff(random: Random) -> dict[str, Any]:
    old, new = random.sample(range(100, 999), 2)
    return {**_file(random), "diff": f"<<<<<<< SEARCH\nrate = {old}\n=======\nrate = {new}\n>>>>>>> REPLACE"}


def _command(random: Random) -> dict[str, Any]:
    if random.random() < 0.15:
        return {"command": f"curl -H 'Authorization: Bearer {_letters(random, 40)}' https://api.shop.example/v1/orders"}
    if random.random() < 0.1:
        return {"command": "aws s3 sync dist s3://shop-web", "env": {"AWS_ACCESS_KEY_ID": aws_key(random)}}
    return {"command": random.choice(COMMANDS), "cwd": "/home/ann/shop"}


def _page(random: Random) -> dict[str, Any]:
    action = random.choice(("click", "launch", "type"))
    return {"action": action, "url": f"http://localhost:3000/cart/{random.randint(1, 40)}"}


def _ticket(random: Random) -> dict[str, Any]:
    return {"ticket_id": random.randint(10_000, 99_999), "requester": f"customer{random.randint(1, 400)}@mail.example"}


def _order(random: Random) -> dict[str, Any]:
    return {"order": f"SO-{random.randint(1000, 9999)}", "fields": "status,total"}


def _repository(random: Random) -> dict[str, Any]:
    return {"repo": "shop/web", "branch": f"fix-{random.randint(1, 300)}", "token": github_token(random)}


def _query(random: Random) -> dict[str, Any]:
    return {"query": random.choice(("refund policy", "shipping to Norway", "invoice missing", "change e-mail address"))}


DIFF_FAILURES = (
    Failure(
        errors.DiffApplyFailedError, "No sufficiently similar match found for the search block in {path}", 5, 0.55, 0.35
    ),
    Failure(errors.MissingParameterError, "Missing required parameter: diff", 1, 0.3, 0.1),
    Failure(errors.FileNotFoundError, "File not found: {path}", 1, 0.2, 0.3),
)
APPLY_DIFF = Tool("apply_diff", _diff, 0.09, DIFF_FAILURES, 60)
RATE_LIMITS = (
    Failure(
        errors.RateLimitError, "429 Too Many Requests: limit of 40,000 tokens a minute, try again in 6s", 4, 0.6, 1.0
    ),
    Failure(errors.ConnectionError, "Connection reset by peer", 1, 0.2, 1.0),
)

CODING_TOOLS = (
    APPLY_DIFF,
    Tool(
        "read_file",
        _file,
        0.07,
        (
            Failure(errors.FileNotFoundError, "File not found: {path}", 5, 0.25, 0.2),
            Failure(errors.PermissionDeniedError, "EACCES: permission denied, open '{path}'", 1, 0.8, 0.6),
        ),
        15,
    ),
    Tool(
        "run_command",
        _command,
        0.14,
        (
            Failure(
                errors.CommandFailedError,
                "Command failed with exit code 1\nFAILED tests/test_invoice.py - assert 41 == 42",
                5,
                0.45,
            ),
            Failure(errors.CommandTimeoutError, "Command timed out after 120 s", 1, 0.5, 0.8),
            Failure(errors.CommandNotFoundError, "/bin/sh: 1: pnpm: not found", 1, 0.5, 0.1),
            Failure(errors.ToolPermissionError, "The user rejected this command", 1, 0.2, 0.5),
        ),
        2_400,
    ),
    Tool(
        "browser_action",
        _page,
        0.12,
        (
            Failure(errors.BrowserActionError, "net::ERR_CONNECTION_REFUSED at {url}", 2, 0.7, 0.8),
            Failure(errors.ToolTimeoutError, "Timeout 30000 ms exceeded waiting for selector #checkout", 1, 0.4, 0.5),
        ),
        900,
    ),
)

SUPPORT_TOOLS = (
    Tool(
        "tickets_update",
        _ticket,
        0.06,
        (
            Failure(errors.InvalidParameterError, "Invalid parameter ticket_id: must be a string", 3, 0.4, 0.2),
            Failure(
                errors.ToolAuthenticationError,
                "401 Unauthorized: token expired for https://bot:{secret}@tickets.example/api",
                1,
                0.95,
                0.9,
            ),
        ),
        210,
        "tickets",
    ),
    Tool(
        "orders_lookup",
        _order,
        0.05,
        (
            Failure(errors.ResourceNotFoundError, "Order {order} does not exist", 3, 0.2, 0.1),
            Failure(errors.McpToolError, "MCP error -32603: upstream timed out", 1, 0.4, 0.9),
        ),
        130,
        "orders",
    ),
    Tool(
        "search_articles",
        _query,
        0.02,
        (Failure(errors.McpConnectionError, "MCP server articles closed the connection", 1, 0.6, 1.0),),
        90,
        "articles",
    ),
)

REVIEW_TOOLS = (
    Tool(
        "clone_repository",
        _repository,
        0.05,
        (
            Failure(
                errors.GitCommandFailedError,
                "fatal: could not read Username for 'https://github.com': No such device",
                1,
                0.7,
                0.8,
            ),
        ),
        1_900,
    ),
    Tool("read_file", _file, 0.03, (Failure(errors.FileNotFoundError, "File not found: {path}", 1, 0.2, 0.2),), 15),
    Tool(
        "post_comment",
        _ticket,
        0.04,
        (Failure(errors.InvalidParameterError, "Invalid parameter line: 0 is not in the diff", 1, 0.5, 0.2),),
        160,
    ),
)

AGENTS = (
    Agent(
        "shop-coder",
        "2.4.0",
        "coder",
        "claude-sonnet-4-5",
        "anthropic",
        CODING_TOOLS,
        RATE_LIMITS,
        0.02,
        8,
        0.1,
        # A bad deployment: with the new prompt, the model no longer copies exactly the lines that it wants to replace.
        {"version": "2.5.0", "tools": (replace(APPLY_DIFF, rate=0.8), *CODING_TOOLS[1:])},
    ),
    Agent("support-desk", "1.12.3", "support", "gpt-4.1-mini", "openai", SUPPORT_TOOLS, RATE_LIMITS, 0.02, 3),
    Agent("nightly-review", "0.9.1", "reviewer", "gemini-2.5-pro", "gcp.gemini", REVIEW_TOOLS, RATE_LIMITS, 0.16, 2),
)
