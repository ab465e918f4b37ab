"""Fake secrets, the texts in which they occur, and harmless look-alikes. All are assembled when the tests run.

A fake is `kind × carrier`: `fakes(seed)` yields them. `harmless(seed)` yields values that must come back unchanged.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
import tomllib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from collector.sanitise.redactions import Rule

# A user's own rule, to which a test adds what it is about.
OWN_RULE = """
[[rule]]
id = "acme-key"
title = "Key of our own gateway"
family = "token"
pattern = 'acme_[a-z0-9]{12}'
"""

_PLACES: dict[str, Any] = tomllib.loads((Path(__file__).parent / "data" / "secrets.toml").read_text("utf-8"))
_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "lower": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "digits": string.digits,
    "nonzero": "123456789",
    "base32": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "b64": string.ascii_letters + string.digits + "+/",
    "b64url": string.ascii_letters + string.digits + "-_",
    "crypt": string.ascii_letters + string.digits + "./",
}
_PIECE = re.compile(r"\{(" + "|".join([*_ALPHABETS, "uuid", "human", "memorable", "basic", "jwt"]) + r")(?::(\d+))?\}")
_STEMS = (
    "Winter",
    "Tr0ub4dor",
    "sunshine",
    "Bl4ck",
    "kopfsalat",
    "Mango",
    "s3cr3t",
    "hunter",
    "dragon",
    "P4ssw0rt",
    "Zug",
    "letme1n",
    "qwerty",
)


class Fake(NamedTuple):
    """A value with a secret: what must be removed (in each spelling), and the words around it that must stay."""

    kind: str
    carrier: str
    value: Any
    secret: str
    kept: tuple[str, ...]


def assemble(spec: str, rng: random.Random) -> str:
    """`spec` with its random pieces filled in: `{alnum:36}`, `{uuid}`, `{basic}`, `{jwt}`, `{human}`, `{memorable}`."""
    return _PIECE.sub(lambda m: _piece(m[1], int(m[2] or 0), rng), spec)


def _piece(kind: str, length: int, rng: random.Random) -> str:
    if kind == "uuid":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    if kind == "human":
        return human(rng)
    if kind == "memorable":
        return f"{rng.choice(_STEMS).lower()}-{rng.choice(_STEMS).lower()}-{rng.randrange(10, 99)}"
    if kind == "basic":
        return base64.b64encode(f"ann:{human(rng)}x".encode()).decode()
    if kind == "jwt":
        head = (
            base64.urlsafe_b64encode(json.dumps({"alg": rng.choice(("HS256", "RS256")), "typ": "JWT"}).encode())
            .decode()
            .rstrip("=")
        )
        body = (
            base64.urlsafe_b64encode(json.dumps({"sub": str(rng.getrandbits(40)), "iat": rng.getrandbits(31)}).encode())
            .decode()
            .rstrip("=")
        )
        return f"{head}.{body}.{_piece('b64url', 43, rng)}"
    while True:
        made = "".join(rng.choices(_ALPHABETS[kind], k=length))
        if (
            made[:1] not in "-_+/."
            and made[-1:] not in "-_+/."
            and (length < 20 or any(c.isdigit() for c in made) or kind == "alpha")
        ):
            return made


def human(rng: random.Random) -> str:
    """A password as people invent them, without spaces and quotes."""
    stem = rng.choice(_STEMS)
    return rng.choice(
        (
            f"{stem}{rng.randrange(10, 9999)}{rng.choice('!#*')}",
            f"{stem}{rng.choice('!@#%^*-_+=.')}{rng.randrange(10, 999)}{rng.choice(_STEMS)}",
            f"{stem.title()}{rng.randrange(100, 9999)}",
            rng.choice(string.ascii_letters)
            + "".join(rng.choices(string.ascii_letters + string.digits + "!@#%^*-_+=", k=13))
            + "7a",
            "".join(rng.choices(string.ascii_letters + string.digits, k=12)) + "4Kq",
        )
    )


def rich(rng: random.Random) -> str:
    """A password with spaces, brackets, separators and the like, for places that quote it."""
    base = human(rng)
    return rng.choice(
        (
            f"{base}&{base[:4]}",
            f"{base} {base[::-1]}",
            f"a,{base};b",
            f"({base})",
            f"{base}|{base[:5]}<3",
            f"/{base}/#1",
            f"${base}$",
            f"{base}@host:1",
        )
    )


def _filled(carrier: str, key: str, secret: str) -> str:
    """`carrier` with key and value in place of K and V; the letters in ENV and OVER stay."""
    return re.sub(r"(?<![A-Z])V(?![A-Za-z])", "\1", carrier).replace("K", key).replace("\1", secret)


def _wrap(text: str, rng: random.Random) -> tuple[str, Any]:
    """`text` as an agent would send it."""
    choice = rng.randrange(9)
    inner = json.dumps({"command": text, "timeout": 30})
    return (
        ("string", text),
        ("map", {"command": text, "timeout": 30}),
        ("content", {"content": [{"type": "text", "text": text}]}),
        ("json-in-string", {"arguments": inner}),
        ("json-in-json", {"body": json.dumps({"arguments": inner})}),
        ("list", ["before", text, "after"]),
        ("multi-line", {"content": f"first line\n{text}\nlast line"}),
        ("report", {"tool": "execute_command", "message": text, "path": "src/app.py"}),
        ("deep", {"a": [{"b": {"c": text}}], "line": 12}),
    )[choice]


def fakes(rules: tuple[Rule, ...], seed: int, per_kind: int = 40) -> Iterator[Fake]:
    """Every kind in `per_kind` carriers or more."""
    rng = random.Random(seed)
    yield from _token_fakes(rules, rng, per_kind)
    yield from _keyed_fakes(rng, per_kind * 8)
    yield from _map_fakes(rng, per_kind)
    yield from _whole_fakes(rules, rng)


def _token_fakes(rules: tuple[Rule, ...], rng: random.Random, per_kind: int) -> Iterator[Fake]:
    carriers = _PLACES["token"]
    for rule in rules:
        if rule.family != "token":
            continue
        for number in range(per_kind):
            secret = assemble(rule.examples[number % len(rule.examples)], rng)
            if "=" in secret[:20] or " " in secret or "://" in secret or secret.startswith("kubeadm"):
                break
            if number % 8 == 7:
                yield _disguised(rule, secret, rng)
                continue
            carrier = rng.choice(carriers)
            wrapper, value = _wrap(_filled(carrier, "x", secret), rng)
            yield Fake(rule.id, f"{wrapper}: {carrier}", value, secret, _words(carrier))


def _disguised(rule: Rule, secret: str, rng: random.Random) -> Fake:
    """Secrets URL-encoded, escaped, in base64, split over lines, with invisible characters."""
    middle = rng.randrange(len(secret) // 3, 2 * len(secret) // 3)
    ways: list[tuple[str, str, str]] = [
        ("percent", f"next=%3Fkey%3D{quote(secret, safe='')}%26page%3D2", quote(secret, safe="")),
        (
            "base64",
            "data: " + base64.b64encode(f'{{"key": "{secret}", "x": 1}}'.encode()).decode(),
            base64.b64encode(secret.encode()).decode()[4:-6],
        ),
        ("zero-width", f"use {secret[:middle]}\u200b{secret[middle:]} for it", secret),
        ("unicode-escape", "use " + f"\\u{ord(secret[0]):04x}" + secret[1:] + " for it", secret[1:]),
        ("json-slash", '{"x":"' + secret.replace("/", "\\/") + '"}', secret.replace("/", "\\/")),
    ]
    if any(len(word) > 3 and secret.startswith(word) for word in rule.keywords):
        cut = max(middle, max(len(word) for word in rule.keywords if secret.startswith(word)) + 6)
        ways += [
            ("line-break", f"key:\n  {secret[:cut]}\n  {secret[cut:]}\n\nnext", secret),
            ("continued", f"X={secret[:cut]}\\\n{secret[cut:]} make all", secret),
            ("concatenated", f'x = "{secret[:cut]}" + "{secret[cut:]}"', secret),
        ]
    name, text, left = rng.choice(ways)
    wrapper, value = _wrap(text, rng)
    return Fake(rule.id, f"{wrapper}: {name}", value, left, ())


def _keyed_fakes(rng: random.Random, per_kind: int) -> Iterator[Fake]:
    carriers = (_PLACES["bare"], _PLACES["quoted"])
    for kind, keys in _PLACES["keys"].items():
        for number in range(per_kind):
            carrier = rng.choice(carriers[number % 2])
            key = rng.choice(keys)
            secret = assemble(rng.choice(_PLACES["values"][kind]), rng)
            if any(form in carrier for form in ("K(", "K[", "@K")) or (carrier.startswith("K:") and "." in key):
                key = re.sub(r"\W", "_", key)
            said = quote(secret, safe="") if "%" in carrier else secret
            wrapper, value = _wrap(_filled(carrier, key, said), rng)
            yield Fake(kind, f"{wrapper}: {carrier} [{key}]", value, said, _words(carrier))


def _map_fakes(rng: random.Random, per_kind: int) -> Iterator[Fake]:
    """Values under their key in the JSON itself."""
    shapes: tuple[Callable[[str, str], Any], ...] = (
        lambda k, v: {k: v, "host": "db.example.org", "port": 5432},
        lambda k, v: {"config": {"auth": {k: v}}, "retries": 3},
        lambda k, v: {"env": [{"name": k, "value": v}, {"name": "HOST", "value": "db.example.org"}]},
        lambda k, v: {"env": [{"value": v, "name": k}]},
        lambda k, v: {"tags": [{"Key": k, "Value": v}]},
        lambda k, v: {"headers": [[k, v], ["Accept", "text/html"]]},
        lambda k, v: {"args": ["deploy", f"--{k}", v, "--host", "db.example.org"]},
        lambda k, v: {"args": ["deploy", f"--{k}={v}", "--host", "db.example.org"]},
        lambda k, v: {"arguments": json.dumps({k: v, "host": "db.example.org"})},
        lambda k, v: {"body": json.dumps({"arguments": json.dumps({k: v, "host": "db.example.org"})})},
        lambda k, v: {"body": json.dumps({"a": json.dumps({"b": json.dumps({k: v})})})},
        lambda k, v: {"arguments": json.dumps({"env": [{"name": k, "value": v}]}, indent=2)},
        lambda k, v: {k: [v, "db.example.org"]},
        lambda k, v: {k: {"value": v, "type": "plain"}},
    )
    for kind, keys in _PLACES["keys"].items():
        for key in keys:
            for shape in rng.sample(shapes, 6):
                secret = (
                    rich(rng)
                    if kind == "password" and rng.random() < 0.3
                    else assemble(rng.choice(_PLACES["values"][kind]), rng)
                )
                yield Fake(
                    kind,
                    f"shape {json.dumps(shape('K', 'V'))} [{key}]",
                    shape(key, secret),
                    json.dumps(secret)[1:-1],
                    (),
                )
    for field in ("selector", "element", "label", "name"):
        secret = human(rng)
        yield Fake("form", field, {field: "#password", "text": secret}, secret, ())


def canary(rule: Rule, rng: random.Random) -> tuple[str, str]:
    """The rule's first example, and the secret in it."""
    parts = _pieces(rule.examples[0], rng)
    text = "".join(parts)
    return text, text if rule.family == "token" else max(parts[1::2], key=len)


def _whole_fakes(rules: tuple[Rule, ...], rng: random.Random) -> Iterator[Fake]:
    """The examples of rules that contain their own surroundings, in every wrapper."""
    for rule in rules:
        if rule.family not in ("structure", "command", "keyed"):
            continue
        for example in rule.examples:
            for _ in range(12):
                parts = _pieces(example, rng)
                secret = max((part for part in parts[1::2] if len(part) >= 8), key=len, default="")
                wrapper, value = _wrap("".join(parts), rng)
                if secret:
                    yield Fake(rule.id, f"{wrapper}: {example}", value, secret, ())


def _pieces(spec: str, rng: random.Random) -> list[str]:
    """The pieces of `spec`, assembled: literal, random, literal, random …"""
    parts: list[str] = []
    at = 0
    for m in _PIECE.finditer(spec):
        parts += [spec[at : m.start()], _piece(m[1], int(m[2] or 0), rng)]
        at = m.end()
    return [*parts, spec[at:]]


def _words(carrier: str) -> tuple[str, ...]:
    return tuple(
        re.findall(r"(?<![A-Za-z])[a-z]{4,}(?![A-Za-z])", re.sub(r"\\.|%[0-9A-F]{2}|\x1b\[[0-9;]*m", " ", carrier))
    )


def survives(fake: Fake, value: Any) -> bool:
    """Whether the secret, or at least half of it (8 characters or more), is still in `value`."""
    text = "\0".join(_strings(value))
    length = min(len(fake.secret), max(8, -(-len(fake.secret) // 2)))
    said = {fake.secret[i : i + length] for i in range(len(fake.secret) - length + 1)}
    return any(
        part in form
        for form in (text, text.replace("\u200b", "").replace("\\", ""), re.sub(r"\s+", "", text))
        for part in said
    )


def kept(fake: Fake, value: Any) -> bool:
    """Whether the words around the secret are still there."""
    text = "\0".join(_strings(value))
    return all(word in text for word in fake.kept)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    else:
        yield str(value)


def harmless(seed: int) -> Iterator[Any]:
    """Hundreds of values without a secret: each must come back unchanged, as the same object."""
    rng = random.Random(seed)
    for text in _PLACES["harmless"]:
        yield text
        yield _wrap(text, rng)[1]
    for _ in range(25):
        yield from _made_up(rng)
    yield from _HARMLESS_VALUES


def _made_up(rng: random.Random) -> Iterator[Any]:
    """Ids, hashes and the like, new each time."""

    def make(spec: str) -> str:
        return assemble(spec, rng)

    yield {
        "id": make("{uuid}"),
        "session": make("{hex:32}"),
        "call_id": make("call_{alnum:24}"),
        "trace_id": make("{hex:32}"),
        "span_id": make("{hex:16}"),
    }
    yield make("commit {hex:40}\nAuthor: Ann\n\n    Rotate tokens")
    yield make('"integrity": "sha512-{b64:86}=="')
    yield make("--hash=sha256:{hex:64} \\\n    --hash=sha256:{hex:64}")
    yield make("sha256:{hex:64}  dist/app-1.2.3.tar.gz")
    yield make("data:image/png;base64,iVBORw0KGgo{b64:400}=")
    yield {"image": {"media_type": "image/png", "data": make("iVBORw0KGgo{b64:800}==")}}
    yield make("-----BEGIN CERTIFICATE-----\n{b64:64}\n{b64:64}\n-----END CERTIFICATE-----")
    yield make("-----BEGIN PUBLIC KEY-----\n{b64:64}\n{b64:60}==\n-----END PUBLIC KEY-----")
    yield make("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{b64:340} ann")
    yield make("key: deps-{hex:40}")
    yield make("cache_key={hex:64}")
    yield make('etag: W/"{hex:32}"')
    yield make("idempotency_key: {uuid}")
    yield make("Idempotency-Key: {uuid}")
    yield make("X-Request-Id: {uuid}")
    yield make("session_id={uuid}")
    yield make("https://example.org/items/{uuid}?page=2")
    yield make("/tmp/pytest-{digits:3}/test_token{digits:1}/out.txt")
    yield make("dist/assets/index-{alnum:8}.js  {digits:3}.12 kB")
    yield make("docker image {hex:12} tagged")
    yield make("0x{hex:40}")
    yield make("model: gpt-5-{digits:4}, max_tokens: {nonzero:4}")
    yield make("{digits:10} {digits:13} {digits:6}.{digits:3}")
    yield make("msg_{alnum:24} toolu_{alnum:24} chatcmpl-{alnum:29} req_{hex:32}")
    yield make("public_key: {b64:43}=")
    yield make('"publicKey": "{b64url:43}"')
    yield make("pk_live_{alnum:24}")
    yield make("at app.{alpha:8}.handle{alpha:6}(Token{alpha:4}.java:{nonzero:3})")


_HARMLESS_VALUES: tuple[Any, ...] = (
    {"max_tokens": 4096, "stop_token": "###", "tokenizer": "o200k_base"},
    {"password": "", "token": None, "secret": False, "api_key": []},
    {"password": {"type": "string", "minLength": 8}},
    {"password": "${DB_PASSWORD}", "token": "{{ token }}", "api_key": "<YOUR_API_KEY>", "secret": "xxxx"},
    {"password": "string", "token": "required", "apiKey": "your-api-key", "secret": "changeme"},
    {"token_type": "bearer", "token_count": 17, "author": "ann", "auth": True, "authenticated": True},
    {"name": "password", "type": "password", "label": "Password", "required": True},
    {"fields": ["username", "password", "token"]},
    {"args": ["--password-stdin", "--token-file", "/run/secrets/token"]},
    {"args": ["docker", "run", "-p", "8080:80", "-e", "DEBUG=1", "web"]},
    {"headers": {"Authorization": "Bearer ${TOKEN}", "Accept": "*/*"}},
    {"headers": {"Authorization": "Bearer <token>", "Cookie": "theme=dark"}},
    {"env": [{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}]},
    {"selector": "#password", "action": "click"},
    {"selector": "input[name=password]", "text": ""},
    {"usage": {"input_tokens": 12345, "output_tokens": 678}},
    {"pattern": "password|secret|token", "path": "src", "glob": "*.py"},
    {"command": "grep -rn 'api_key' src | head -20"},
    {"query": "how to rotate an API key in AWS"},
    {"old_string": "password = None", "new_string": "password: str | None = None"},
    {"file_path": "src/auth/token.ts", "limit": 200, "offset": 40},
)
