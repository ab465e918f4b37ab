"""Templates: what differs between calls is replaced, what distinguishes errors stays."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.classify.template import extract
from collector.classify.template.fingerprint import TEMPLATE_CHARS, fingerprint, template
from collector.classify.template.strip import LAYERS, undressed
from collector.tables import load_toml, schemas
from tests.cpu import cpu_seconds

DRESS = load_toml(schemas() / "dress.toml")
TEMPLATES = [
    ("", ""),
    ("File not found: /srv/app/a.py", "File not found: <path>"),
    ("File not found: src/lib/a.py", "File not found: <path>"),
    ("File missing.py not found", "File <name> not found"),
    ("open 'C:\\x\\y.txt' failed", "open <str> failed"),
    ("cannot open C:\\x\\y.txt", "cannot open <path>"),
    ("[Errno 2] No such file or directory: '/srv/x'", "[Errno 2] No such file or directory: <str>"),
    ("ENOENT: no such file or directory, open \"x\"", "ENOENT: no such file or directory, open <str>"),
    ("Process exited with code 1", "Process exited with code 1"),
    ("Process exited with code 127", "Process exited with code 127"),
    ("Exit Code: 2", "Exit Code: 2"),
    ("returned non-zero exit status 128.", "returned non-zero exit status 128."),
    ("{\"exit_code\":2,\"stderr\":\"\"}", "{\"exit_code\":2,<str>:<str>}"),
    ("http 429", "http 429"),
    ("GET https://a.test/x?y=1 returned 503, try again", "GET <url> returned 503, try again"),
    ("GET https://a.test/x failed: 403 (sent late)", "GET <url> failed: 403 (sent late)"),
    ("ticket T-404 not found (404)", "ticket <name> not found (404)"),
    ("Mcp error: -32602: Invalid params", "Invalid params"),
    ("timed out after 30 seconds", "timed out after <time>"),
    ("timed out after 3000ms before it", "timed out after <time> before it"),
    ("at 2026-11-21T21:41:51.123Z by ann@example.org", "at <time> by <email>"),
    ("session 123e4567-e89b-12d3-a456-426614174000 gone", "session <id> gone"),
    ("connect ECONNREFUSED 127.0.0.1:8080", "connect ECONNREFUSED <host>"),
    ("commit 1a2b3c4d5e6f not found", "commit <name> not found"),
    ("at 0x7ffe12ab", "at <id>"),
    ("Unknown process id 99999", "Unknown process id <num>"),
    ("Tool call run_command with id call_s1_02 failed", "Tool call <name> with id <name> failed"),
    ("error in main.rs:10:5: expected value", "error in <path>: expected value"),
    ("Found 3 occurrences for old_string", "Found <num> occurrences for <name>"),
    ("key [redacted:aws-key] in use", "key [redacted:aws-key] in use"),
    ("too   many\n\tspaces", "too many spaces"),
    ("doesn't match", "doesn't match"),
    ("Input/output error", "Input/output error"),
    ("{\"error\": \"File not found: /srv/a\"}", "File not found: <path>"),
    ("529 {'type': 'error', 'error': {'message': 'Overloaded', 'code': 529}}", "529 Overloaded"),
    ("{\"error\":{\"code\":503,\"message\":\"busy, \\\"x\\\" waits\"}}", "code 503 busy, <str> waits"),
    ("(1146, \"Table 'shop.users' doesn't exist\")", "(1146, \"Table <str> doesn't exist\")"),
    ("Client error '404 Not Found' for url 'https://a.test/b'", "Client error '404 Not Found' for url <str>"),
    ("[Nov 21 21:41:51] gone at 2026/11/21 21:41:51", "<time> gone at <time>"),
    ("session 1234567d-e89b-12d3-a456-426614174000 gone", "session <id> gone"),
    ("Sat, 21 Nov 2026 21:41:51 GMT: gone", "<time>: gone"),
    ("Traceback (most recent call last):\n  File \"/srv/a.py\", line 3\n    g()\nKeyError: 'x'", "KeyError: <str>"),
    ("Error: gone\n    at run (/srv/a.js:3:7)\n    at main (/srv/b.js:1:2)", "Error: gone"),
    ("boom happened\n\nError: boom happened\n    at f (x.js:1:1)", "boom happened"),
    ("API Error: <html><head><title>502 Bad Gateway</title></head>nginx/1.25</html>", "Bad Gateway"),
    ("relation 'u' is gone\nLINE 1: SELECT * FROM u\n                      ^", "relation <str> is gone"),
    ("String to replace not found.\nString: def f():\n  pass", "String to replace not found."),
    ("last status: 500, request id: req_9", "last status: 500"),
    ("connect ECONNREFUSED ::1:3000", "connect ECONNREFUSED <host>"),
    ("No access to gpt-4.1-mini", "No access to <name>"),
    ("File too large: 12.4 MB", "File too large: <size>"),
    ("one of 'a', 'b', or 'c'", "one of <str>"),
    ("got {\"a\": {\"b\": [\"c\", \"d\"]}} here", "got <json> here"),
    ("No flights from SFO to Lisbon on 12 December", "No flights from <name> to <name> on <time>"),
    ("Order total €4.10 is below 12,50 €", "Order total <num> is below <num>"),
    ("the server returned 768 rows", "the server returned <num> rows"),
    ("1 error, 0 warnings", "<num> error, <num> warnings"),
    ("400 INVALID_ARGUMENT. {'error': {'code': 400, 'message': 'the turn is empty'}}",
     "the turn is empty"),
    ("{\"code\":40003,\"msg\":\"signature does not match\"}", "signature does not match"),
    ("usage: a.py [-h]\na.py: error: the file is empty", "<path>: error: the file is empty"),
    ("模型gpt-4o不存在", "模型 <name> 不存在"),
    ("表 用户表 不存在", "表 <name> 不存在"),
    ("缺少必填参数\uff1acity", "缺少必填参数: <name>"),
    ("Пользователь ivan не найден", "Пользователь <name> не найден"),
    ("The number +49 (0) 151 is not valid", "The number <num> is not valid"),
    ("12 of 14 failed: 5 of them twice", "<num> of <num> failed: <num> of them twice"),
    ("is no char boundary; it is inside 你 of the text", "is no char boundary; it is inside <name> of the text"),
    ("panic: send on closed channel\n\ngoroutine 7 [running]:\nmain.f()", "panic: send on closed channel"),
    ("no value at $.items[3].due", "no value at <name>"),
    ("<tool_use_error>The file is empty</tool_use_error>", "The file is empty"),
    ("no rows\nLocation: EU\nCode: 403", "no rows Location: <name> Code: 403"),
    ("resolved to <a href=\"#\">Send</a> twice", "resolved to <str> twice"),
    ("required fields: [LastName, Stage]", "required fields: <name>"),
    ("f(unknown, date) does not exist", "<name> does not exist"),
    ("cannot execute DROP TABLE in JSON", "cannot execute <name> in JSON"),
    ("This StandardScaler instance is not ready", "This <name> instance is not ready"),
    ("finish reason SAFETY", "finish reason SAFETY"),
    ("{\"errors\": {\"priority\": \"The value is not known.\"}}", "The value is not known."),
    ("{\"exit_code\": 2, \"stderr\": \"no rule to make it\"}", "code 2 no rule to make it"),
    ("{\"a\": \"two words\"}", "<json>"),
    ("<Error><Code>NoSuchKey</Code><Message>The key is gone.</Message></Error>", "The key is gone."),
    ("no such column\n\n  12:   a = b.c\n\ndeclare it", "no such column"),
    ("mismatched types\n12 |  let x = 1;", "mismatched types"),
    ("Unknown column; Did you mean date? Try it", "Unknown column; Try it"),
    ("column is gone\nHINT:  Perhaps you meant another.", "column is gone"),
    ("failed to push to github.com:acme/api.git", "failed to push to <url>"),
    ("GET https://api.git.example.com/x?ref=a failed", "GET <url> failed"),
    ("Cannot read image: photo of ann.jpg", "Cannot read image: <path>"),
    ("File is locked: open a.txt", "File is locked: open <path>"),
    ("upload failed: 502 /jobs/12", "upload failed: 502 <path>"),
    ("needs 12.50 EUR more", "needs <num> more"),
    ("no table in app99Zz today", "no table in <id> today"),
    ("null value in column\nDETAIL:  Failing row contains (1, null).", "null value in column"),
    ("Fehler 404 beim Abrufen", "Fehler 404 beim Abrufen"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "expected"), TEMPLATES)
def test_template(message: str, expected: str) -> None:
    assert template(message) == expected
    assert template(expected) == expected


@pytest.mark.parametrize("row", load_toml(schemas() / "names.toml")["name"], ids=lambda row: row["words"])
def test_names_in_bare_words(row: dict[str, Any]) -> None:
    for message, expected in row["examples"].items():
        assert template(message) == expected
        assert f"<{row['is']}>" in expected
    for message in row.get("stays", ()):
        assert "<" not in template(message).replace("<str>", "")


@pytest.mark.parametrize(
    "row", [row for part in ("front", "end") for row in DRESS[part]], ids=lambda row: row["pattern"][:40]
)
def test_dress(row: dict[str, Any]) -> None:
    for message, left in row["examples"].items():
        assert undressed(message) == left
    for message in row.get("stays", ()):
        assert undressed(message) == message


@pytest.mark.parametrize(
    "row",
    [row for table in ("opening", "frame", "echo", "inside", "mask") for row in extract.TABLE[table]],
    ids=lambda row: row["pattern"][:40],
)
def test_steps_to_the_error_of_a_message(row: dict[str, Any]) -> None:
    step = extract.Step(row["words"], extract.substitution(row["pattern"], row["becomes"]))
    assert row["examples"]
    for message, left in row["examples"].items():
        assert extract.applied([step], message) == left
    for message in row["stays"]:
        assert extract.applied([step], message) == message


def test_dress_in_layers_and_colours() -> None:
    told = "\x1b[31mError: Error calling tool 'x': acme.http.HTTPError: Error code: 404 - there is no such thing\x1b[0m"
    assert undressed(told) == "there is no such thing"
    assert undressed("Error: " * 50 + "there is none") == "Error: " * (50 - LAYERS) + "there is none"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("npm warn deprecated\nno such table: users", "no such table: <name>"),
        ("Two things:\nthe path is invalid:\n  a/b/c", "Two things: the path is invalid: <path>"),
        ("fine so far\nand on", "fine so far and on"),
        ('Unexpected token "<htm\nl>" is invalid', 'Unexpected token "<htm l>" is invalid'),
    ],
)
def test_the_line_that_tells_the_error_is_the_template(message: str, expected: str) -> None:
    assert template(message) == expected


def test_names_in_prose() -> None:
    table = load_toml(schemas() / "words.toml")
    for message, expected in table["examples"].items():
        assert template(message) == expected
    for message in table["stays"]:
        assert template(message) == message


def test_one_error_in_a_thousand_places_is_one_group() -> None:
    messages = [f"hunk #{n} failed at line {n * 7} of /srv/app/file_{n}.py: found 'retries = {n}'" for n in range(1000)]
    assert {template(message) for message in messages} == {"hunk #<num> failed at line <num> of <path>: found <str>"}


def test_a_template_is_bounded_and_never_ends_in_half_a_placeholder() -> None:
    for length in range(280, 320):
        cut = template("x" * length + " 12345 tail")
        assert len(cut) <= TEMPLATE_CHARS
        assert "<" not in cut.replace("<num>", "")


def test_a_fingerprint_tells_class_tool_and_template_apart() -> None:
    groups = {
        fingerprint(*parts)
        for parts in [
            ("A", "t", "x"),
            ("B", "t", "x"),
            ("A", "u", "x"),
            ("A", "t", "y"),
            ("A", "tx", ""),
            ("At", "x", ""),
        ]
    }
    assert len(groups) == 6
    assert all(0 <= group < 1 << 64 for group in groups)


def test_fingerprints_stay_what_they_are_because_stored_groups_are_found_by_them() -> None:
    assert fingerprint("FileNotFoundError", "read_file", "File not found: <path>") == 13350373345401385018


@pytest.mark.parametrize(
    "messages",
    [
        ("parse error", "parse error at line 3", "parse error at line 3 column 7", "parse error (line 4)"),
        ("relation 'a' does not exist", "relation 'b' does not exist at character 15"),
        ("Range Sheet1!A1 is locked", "Range 'b' is locked", "Range Budget!'x' is locked"),
        ("connect to 'db' failed", "connect to 'db' (10.0.0.1) failed", "connect to 'db' at 10.0.0.1 failed"),
        ("resolved to 2 elements: 1) 'a' 2) 'b'", "resolved to 7 elements: 1) 'a'"),
        (
            "1 validation error for A\nq\n  Field required [type=missing, input_value={}, input_type=dict]",
            "2 validation errors for B\nx\n  Field required [type=missing, input_value={}, input_type=dict]\n"
            "y\n  Field required [type=missing, input_value={}, input_type=dict]",
        ),
        ("Parameters are not present:\ncity\nTry again", "Parameters are not present:\nfrom\nto\nTry again"),
        (
            "error: no matching package named `foo` found\nlocation searched: crates.io\nrequired by package `app`",
            "error: no matching package named `bar` found",
        ),
        ("HTTPSConnectionPool(host='a', port=443): no", "HTTPConnectionPool(host='b', port=80): no"),
        ("curl: (7) Couldn't connect to server", "curl: (7) Could not connect to server"),
        ("You can't do that", "You cannot do that", "You can not do that"),
        ("database is locked", "database is locked (5)"),
        ("foo.bar is not a function", "app.use(...).listen is not a function"),
        ("No such customer: 'a'", "Request req_8Qw: No such customer: 'b'"),
        ("Could not find exact match for edit:\nfoo()", "Could not find exact match for edit:\n    return x + 1"),
        ("Segmentation fault (core dumped)", "/tmp/a.sh: line 7: 99 Segmentation fault      (core dumped) python x.py"),
        (
            "model 'a' not found",
            "model 'b' not found, try pulling it first",
            "model 'c' not found. See the list.",
        ),
        ("Not enough credits. To buy some, see https://a.test/b. Upgrade any time", "Not enough credits."),
        ("could not compile `a` (lib)", 'could not compile `b` (bin "b")', "could not compile `c`"),
        ('{"error":{"message":"Overloaded"}}', '529 {"error":{"message":"Overloaded"}}', "API Error: 529 Overloaded"),
        ("401 {'error': {'message': 'invalid token'}}", "Error code: 401 - {'error': {'message': 'invalid token'}}"),
        ('{"ok":false,"error":"not_in_channel"}', "Error: An API error occurred: not_in_channel"),
        ("rate limit exceeded, request ID A1:B2:C3", "rate limit exceeded, request ID 0F:1E:2D:3C"),
        ("waiting for locator('#a')", "waiting for locator('a').first()", "waiting for getByText('b').nth(2)"),
        ("No element found for a[href='/b']", "No element found for button.big[data-id=x]"),
        (
            "429 Provider returned error",
            "Error code: 429 - Provider returned error",
            "API Error: 429 Provider returned error",
        ),
        ("Connection error.", "openai.APIConnectionError: Connection error."),
        ('"User" has no attribute "nam"; maybe "name"?', '"Session" has no attribute "query"'),
        ("没有权限访问文件: /srv/a.txt", "没有权限访问文件: D:\\data\\b.xlsx"),
        ("stopped after 3 s with 5 bytes received", "stopped after 3 s with 5 out of 20 bytes received"),
        ("=== 1 failed, 12 passed in 0.4s ===", "== 4 failed in 1.1s ==", "= 2 failed, 1 passed, 5 skipped in 4.9s ="),
        ("not allowed on resource: *", "not allowed on resource: arn:aws:s3:::a/b"),
        ("no matches found: *.parquet", "no matches found: uvicorn[standard]"),
        ('waiting for get_by_role("link", name="Next")', "waiting for locator('#a')"),
        (
            "rsync error: failed (code 23) at main.c(13) [sender=3.2.7]",
            "rsync error: failed (code 23) at io.c(2) [generator=3]",
        ),
        ("no table (Connection: mysql, SQL: select * from `a`)", "no table (Connection: mysql, SQL: insert into `b`)"),
        ("org.postgresql.Driver", "com.acme.shop.Application"),
        ("invalid syntax (<unknown>, line 1)", "invalid syntax (<string>, line 3)"),
        ("checksum of ref 5f2a::k3x9: not found", "checksum of ref e07d::m2vv: not found"),
        ("a.go:1:2: declared and not used: resp", "b.go:9:1: declared and not used: startedAt"),
        ("can't encode character '\u2019' in position 8: x", "can't encode characters in position 1-4: x"),
        (
            "Two issues:\nThe parameter `a` is missing\nThe parameter `b` is missing",
            "Two issues:\nThe parameter `a` is missing\nThe parameter `c` is missing",
        ),
    ],
)
def test_where_it_went_wrong_and_how_many_names_it_has_makes_no_other_group(messages: tuple[str, ...]) -> None:
    assert len({fingerprint("E", "t", template(message)) for message in messages}) == 1


@pytest.mark.parametrize(
    "messages",
    [
        ("Request failed [code=404]", "Request failed [code=500]"),
        ("auth.token.stale", "billing.card.declined"),
        ("Upload failed. The server responded with: {}", "Deletion failed. The server responded with: {'id': 5}"),
        (
            "make: *** No rule to make target 'x', needed by 'y'.  Stop.\nerror: build of z failed with signal 9",
            "make: *** No rule to make target 'x'.  Stop.",
        ),
        ("bad clause [WHERE id = 1]: unknown column", "bad clause [WHERE id = 1]: types do not match"),
        (
            "Query failed, SQL: select a from b: column is unknown",
            "Query failed, SQL: select a from b: lock wait is over",
        ),
        ("Failed to evaluate selector: Target page is closed.", "Failed to evaluate selector: the frame was detached!"),
        ("call ended with code[ABORTED]", "call ended with code[CANCELLED]"),
        ("Permission denied (policy)", "Permission denied (quota)"),
        ("== 1 failed, 2 errors in 1s ==", "== 1 failed in 1s =="),
        (
            "Read failed due to the following issue:\n",
            "Write failed due to the following issue:\nThe file is locked by x",
        ),
    ],
)
def test_errors_that_look_alike_are_told_apart(messages: tuple[str, str]) -> None:
    assert len({fingerprint("E", "t", template(message)) for message in messages}) == 2


def test_the_error_that_a_server_responded_with_tells_groups_apart() -> None:
    answer = "The request to the Slack API failed. (url: https://slack.com/api/chat.x)\nThe server responded with: {}"
    words = [answer.format({"ok": False, "error": word}) for word in ("missing_scope", "not_in_channel")]
    assert len({fingerprint("E", "t", template(message)) for message in words}) == 2


def test_lines_that_say_more_than_where_make_another_group() -> None:
    messages = "a.sh: line 2: 'x': No such file", "a.sh: No such file", "Cannot read 'x'", "Cannot read line 4 of 'x'"
    assert len({fingerprint("E", "t", template(message)) for message in messages}) == 4


def test_a_list_of_issues_is_told_by_the_first() -> None:
    issues = '[\n  {{\n    "code": "x",\n    "path": [\n      "a"\n    ],\n    "message": "{}"\n  }}\n]'
    texts = [issues.format(said) for said in ("Expected number, received string", "Unrecognized key(s) in object: 'a'")]
    assert template(texts[1]) == "Unrecognized key(s) in object: <str>"
    assert len({fingerprint("E", "t", template(text)) for text in (*texts, f"ZodError: {texts[0]}")}) == 2


def test_an_aside_that_tells_the_error_makes_another_group() -> None:
    messages = [f"could not open file 'x' ({why})" for why in ("permission denied", "no such file")]
    assert len({fingerprint("E", "t", template(message)) for message in messages}) == 2


def test_the_message_of_an_object_that_go_prints_tells_the_error() -> None:
    messages = [f"422 Failed [{{Kind:Pull Code:custom Message:{said}}}]" for said in ("There is one", "No change here")]
    assert len({fingerprint("E", "t", template(message)) for message in messages}) == 2


def test_a_code_in_an_error_field_is_no_name() -> None:
    messages = [f"The server responded with: {{'ok': False, 'error': '{code}'}}" for code in ("name_taken", "not_here")]
    assert len({fingerprint("E", "t", template(message)) for message in messages}) == 2


pieces = st.sampled_from(
    [
        "exit code 1",
        "'",
        '"',
        "`",
        "/a/b.py",
        "<num>",
        "<",
        "5 ms",
        "a_1b2",
        "{",
        "}",
        "[",
        "]",
        "\\",
        "x@y.z",
        "12",
        ":",
        " ",
        ".",
    ]
)


@given(st.one_of(st.text(max_size=3000), st.lists(pieces, max_size=400).map("".join)))
def test_a_template_of_anything_is_bounded(message: str) -> None:
    assert len(template(message)) <= TEMPLATE_CHARS


def test_no_message_takes_long() -> None:
    hard = (
        "a-",
        "1.1 d",
        "{1",
        "a@",
        "<html ",
        "not found: a, ",
        "one of a, ",
        '{"error":"',
        "1.'",
        "Command: {'",
        "\n at ",
        "tool a ",
        "no such a b c ",
        "a.b",
        "a_",
        "<str>, ",
        "no Ab ",
        "x-",
        "表 a",
        "<a ",
        "<a b>",
        "f(a, ",
        ": [a, ",
        "`a",
        "\nAb c: ",
        "usage: \n",
        "A b C ",
        "block:\n",
        "FAIL a > ",
        "$.a",
        "+1 ",
        '{"a b c ',
        '{"a b c d",',
        "\n 1:   ",
        "a.git:",
        "at line <num> ",
        "<Code>a</Code>",
        "Tool a b of ",
        "Kunde a ",
        "a, null ",
        "\n",
        " ",
        ": ",
        "404 ",
        "a\n",
        "a: ",
        "npm error ",
        'returned "',
        '{"message": "',
        "response body: {",
        "in scope SELECT ",
        "bash: ",
        "\x1b[31m",
        ", a='",
        "a[b",
        "a::",
        "<> of ",
        "1 failed, ",
        "selector: #a ",
        ", needed by 'a",
        '[WHERE "a',
        "SQL: select a",
        "server responded with: {",
        "Permission denied (password,",
    )
    # words that some patterns require before they are tried
    told = ("", 'x retrying (version "message": returned "', '{"error": {"message": "', " did you mean")

    def grouped(message: str) -> None:
        fingerprint("E", "t", template(message))

    for piece in hard:
        for before, after in ((told[0], ""), (told[1], ""), (told[2], '"}}'), ("", told[3])):
            message = f"{before}{piece * 4096}"[: 4096 - len(after)] + after
            took = cpu_seconds(partial(grouped, message), enough=0.25)
            assert took < 0.25, (before, piece, after)
