"""The SDK's errors: one class for each of the taxonomy, and what each says to the model, the log and the person."""

from __future__ import annotations

import builtins
import inspect
import json
import pickle
import tomllib
from pathlib import Path
from typing import Any

import pytest
from misstep_sdk import convert, errors
from misstep_sdk.errors import AgentError
from misstep_sdk.facts import FACTS
from misstep_sdk.masking import masked

from collector.classify.taxonomy import key
from tests.doors import only, taken
from tests.sdk_facts import FACTS as FILE
from tests.sdk_facts import NAMES, ROOT, written, written_names

SECRETS = {
    "github": "gh" + "p_" + "a1B2" * 9,
    "aws": "AK" + "IA" + "QWERTYUIOPASDFGH",
    "openai": "s" + "k-" + "proj-" + "a1B2" * 8,
    "slack": "xox" + "b-" + "1234567890-abcdef",
    "jwt": ".".join(("ey" + "Jhbg" * 5, "ey" + "Jzdg" * 5, "c2ln" * 5)),
    "url": "ann:" + "hunter2hunter2",
}
TAXONOMY = tomllib.loads((ROOT / "schemas" / "taxonomy.toml").read_text())["classes"]
CLASSES: dict[str, type[AgentError]] = {
    name: found for name, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, AgentError)
}
DOMAINS = {
    "streaming": errors.StreamingError,
    "tool": errors.ToolError,
    "network": errors.NetworkError,
    "storage": errors.StorageError,
    "loop": errors.LoopError,
    "git": errors.GitError,
    "config": errors.ConfigError,
    "unknown": errors.UnknownError,
}
CATEGORIES = {
    ("streaming", "parse"): errors.ParseError,
    ("streaming", "handler"): errors.HandlerError,
    ("streaming", "abort"): errors.AbortError,
    ("streaming", "provider"): errors.ProviderError,
    ("streaming", "token"): errors.TokenBudgetError,
    ("tool", "validation"): errors.ValidationError,
    ("tool", "file_operation"): errors.FileOperationError,
    ("tool", "content"): errors.ContentError,
    ("tool", "execution"): errors.ExecutionError,
    ("tool", "state"): errors.StateError,
    ("tool", "access"): errors.AccessError,
    ("tool", "resource"): errors.ResourceError,
    ("network", "rate_limit"): errors.LimitError,
    ("network", "response"): errors.ResponseError,
}


def test_the_facts_are_those_of_the_taxonomy() -> None:
    assert Path(FILE).read_text() == written(), "run `make facts`"
    assert NAMES.read_text() == written_names(), "run `make facts`"


@pytest.mark.parametrize("name", ["RateLimitError", "rate_limit", "BadRequestException", "Error", "Exception", "E-1"])
def test_names_are_compared_as_the_collector_compares_them(name: str) -> None:
    assert convert.key(name) == key(name)


def test_every_class_of_the_taxonomy_is_there_and_no_other() -> None:
    bases = {AgentError, *DOMAINS.values(), *CATEGORIES.values()}
    assert {name for name, kind in CLASSES.items() if kind not in bases - {errors.UnknownError}} == set(TAXONOMY)


@pytest.mark.parametrize("name", TAXONOMY)
def test_a_class_stands_in_its_domain_and_category(name: str) -> None:
    row, kind = TAXONOMY[name], CLASSES[name]
    assert issubclass(kind, DOMAINS[row["domain"]])
    assert issubclass(kind, CATEGORIES.get((row["domain"], row["category"]), AgentError))
    others = {domain for name, domain in DOMAINS.items() if name != row["domain"]}
    assert not any(issubclass(kind, other) for other in others)
    assert (kind.facts, kind.facts.name, kind.__doc__ is not None) == (FACTS[name], name, True)


@pytest.mark.parametrize("kind", [*DOMAINS.values(), *CATEGORIES.values()])
def test_a_domain_or_category_raised_as_it_is_says_something_true_of_it(kind: type[AgentError]) -> None:
    assert (DOMAINS[kind.facts.domain] in kind.__mro__, kind("x").error_class in TAXONOMY) == (True, True)


MADE = [
    errors.MissingParameterError("path", example="src/app.py", tool="read_file"),
    errors.InvalidParameterError("line", "must be positive", value=-1),
    errors.InvalidToolError("reed_file"),
    errors.FileNotFoundError("src/a.py", tool="read_file"),
    errors.FileExistsError("src/a.py"),
    errors.NotAFileError("src"),
    errors.PermissionDeniedError("/etc/shadow", "system_permission"),
    errors.IgnoreViolationError(".env", ".rooignore"),
    errors.SandboxViolationError("/etc/passwd", "/work"),
    errors.EditWithoutReadError("a.py"),
    errors.CommandTimeoutError(120),
    errors.CommandFailedError(1, "1 failed\n", tool="run"),
    errors.ConsecutiveMistakeError(3),
    errors.ResourceNotFoundError("issue 7"),
    errors.InvalidStreamError("empty"),
    errors.ChunkParseError("bad", '{"a', 3),
    errors.ContextOverflowError(210_000, 200_000),
    errors.RateLimitError(5),
    errors.ApiError(422, "no"),
    errors.StorageNotFoundError("loop-1"),
    errors.StorageAlreadyExistsError("loop-1"),
    errors.StorageParseError(7, "no comma"),
    errors.InvalidTransitionError("done", "running"),
    errors.MaxIterationsError(50),
    errors.ArtifactNotFoundError("plan.md"),
    errors.MergeConflictError(["a.py", "b.py"]),
    errors.BranchNotFoundError("fix"),
    errors.GitCommandFailedError("git push", "rejected"),
    errors.ConfigFileNotFoundError("loopr.yml"),
    errors.MissingFieldError("model"),
    errors.InvalidValueError("retries", "many", "a number"),
    errors.EnvNotSetError("ANTHROPIC_API_KEY"),
]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_what_an_error_says_to_the_model_can_be_sent_and_is_complete(error: AgentError) -> None:
    payload = json.loads(json.dumps(error.to_llm_payload()))
    assert payload["ok"] is False
    assert payload["error"] == str(error)
    assert payload["error_class"] == type(error).__name__
    assert payload["retryable"] is error.facts.retryable
    assert payload["suggestion"]
    assert payload["recommendations"]
    assert payload.get("target") == error.target


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: AgentError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_the_collector_understands_a_log_entry(error: AgentError) -> None:
    error.tool = error.tool or "some_tool"
    entry = error.to_log_entry({"path": "a", "api_key": SECRETS["github"]}, time_s=1_795_297_000)
    assert "ghp_" not in json.dumps(entry)
    report = only(taken(json.dumps(entry | {"session": "s1", "service": "agent"}).encode(), "events"))
    assert (report["outcome"], report["error_class"], report["tool"]) == ("error", type(error).__name__, error.tool)
    assert report["message"] == str(error)
    assert report["time_ns"] == 1_795_297_000 * 10**9


@pytest.mark.parametrize(
    ("error", "sentence", "details"),
    [
        (errors.RateLimitError(5), "API rate limited. Retrying in 5 s …", False),
        (errors.ConnectionError("reset"), "Network error. Check your internet connection.", False),
        (errors.SandboxViolationError("/etc", "/work"), "Security: cannot access /etc (outside /work)", False),
        (errors.MaxIterationsError(9), "Failed after 9 attempts. Consider adjusting the task.", False),
        (errors.EnvNotSetError("KEY"), "Missing environment variable: KEY. Set it and restart.", False),
        (errors.ApiError(400, "no"), "API error 400: no", True),
        (errors.CommandFailedError(2, "no rule"), "Command failed with exit code 2: no rule", True),
        (errors.MergeConflictError(["a"]), "Merge conflict in files: a", True),
        (errors.ResourceNotFoundError("a.ts"), "Resource not found: a.ts", False),
        (errors.ToolExecutionError("x", user_message="It broke."), "It broke.", False),
    ],
)
def test_what_a_person_reads(error: AgentError, sentence: str, details: bool) -> None:
    assert (error.user_message(), error.show_details) == (sentence, details)


def test_an_instance_may_differ_from_its_class() -> None:
    error = errors.ToolExecutionError(
        "no key", fatal=True, retryable=False, recommendations=["Stop", "Ask"], suggestion="Stop"
    )
    assert (error.fatal, error.to_llm_payload()["retryable"]) == (True, False)
    assert error.to_llm_payload()["recommendations"] == ["Stop", "Ask"]


def test_a_class_of_ones_own_is_its_parents_class_to_the_collector() -> None:
    class LedgerLocked(errors.ToolExecutionError):
        facts = errors.ToolExecutionError.facts._replace(recovery="retry")

    error = LedgerLocked("locked")
    assert (error.error_class, error.to_llm_payload()["error_class"]) == ("ToolExecutionError", "LedgerLocked")

    class FileNotFoundError(errors.ToolExecutionError):
        """Another program's class of the same name is not the taxonomy's."""

    assert FileNotFoundError("x").error_class == "ToolExecutionError"


def test_the_package_itself_hides_no_builtin() -> None:
    import misstep_sdk

    assert not set(misstep_sdk.__all__) & set(vars(builtins))


SECRET_KEYS = [
    "password",
    "api_key",
    "apiKey",
    "X-Api-Key",
    "client_secret",
    "Authorization",
    "access_token",
    "sessionToken",
    "cookie",
    "db_passwd",
    "private_key",
    "token",
]
PLAIN_KEYS = [
    "max_tokens",
    "token_count",
    "path",
    "keyboard",
    "author",
    "tokens",
    "compass",
    "secretary_count",
    "public_key_id",
    "sort_key",
]


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_a_value_under_a_secret_name_is_masked(key: str) -> None:
    assert masked({"a": [{key: "hunter2 hunter2"}]}) == {"a": [{key: "[redacted]"}]}
    logged = errors.ToolExecutionError("it failed").to_log_entry({key: "hunter2 hunter2"})
    assert logged["params"] == {key: "[redacted]"}


@pytest.mark.parametrize("key", PLAIN_KEYS)
def test_other_values_stay(key: str) -> None:
    assert masked({key: 4096, "b": {key: True}}) == {key: 4096, "b": {key: True}}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_vendors_secret_is_masked_wherever_it_stands(kind: str) -> None:
    secret = SECRETS[kind]
    assert secret not in json.dumps(
        masked({"command": f"curl https://{secret}@example.org/", "list": [f"b https://{secret}@c"]})
    )


@pytest.mark.parametrize(
    "value",
    [
        {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {"j": 1}}}}}}}}}},
        "x" * 100_000,
        {1: {2, 3}},
        object(),
        b"bytes",
    ],
)
def test_any_value_becomes_json_of_bounded_size(value: Any) -> None:
    assert len(json.dumps(masked(value))) < 20_000
