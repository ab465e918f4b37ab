"""Fake secrets, the places they turn up in, and harmless things that look like them. All assembled when the tests run.

A fake is `kind × carrier`: `fakes(seed)` yields them. `harmless(seed)` yields values that must come back unchanged.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from collector.redactions import Rule

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
_PIECE = re.compile(r"\{(" + "|".join([*_ALPHABETS, "uuid", "human", "basic", "jwt"]) + r")(?::(\d+))?\}")
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
    """A value with a secret in it: what must go (in each spelling), and the words around it that must stay."""

    kind: str
    carrier: str
    value: Any
    secret: str
    kept: tuple[str, ...]


def assemble(spec: str, rng: random.Random) -> str:
    """`spec` with its pieces made up: `{alnum:36}`, `{hex:40}`, `{uuid}`, `{human}` (a password people type), `{basic}`, `{jwt}`."""
    return _PIECE.sub(lambda m: _piece(m[1], int(m[2] or 0), rng), spec)


def _piece(kind: str, length: int, rng: random.Random) -> str:
    if kind == "uuid":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    if kind == "human":
        return human(rng)
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
    """A password as people make them up, without blanks and quotes."""
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
    """A password with blanks, brackets, separators and the like: only in places that quote."""
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


_KEYS = {
    "password": "password passwd PASSWORD DB_PASSWORD dbPassword db-password userPassword MYSQL_ROOT_PASSWORD smtp_pass SMTP_PASS pwd admin_pwd passphrase "
    "spring.datasource.password keystorePassword redis_password PGPASSWORD SSHPASS ansible_become_password new_password currentPassword passwordConfirmation "
    "Password ROOT_PASS mailPassword ftp_passwd encryption_passphrase RABBITMQ_DEFAULT_PASS proxyPassword bindPassword",
    "secret": "secret client_secret clientSecret CLIENT_SECRET SECRET_KEY app-secret appSecret JWT_SECRET secret_key_base SESSION_SECRET webhook_secret "
    "signing_secret sharedSecret ENCRYPTION_KEY encryptionKey private_key hmac_key COOKIE_SECRET oauth_client_secret consumerSecret TOTP_SECRET master_key",
    "token": "token access_token accessToken ACCESS_TOKEN refresh_token refreshToken auth_token authToken AUTH_TOKEN GITHUB_TOKEN npm_token bot_token botToken "
    "id_token x-auth-token X-Vault-Token SLACK_BOT_TOKEN csrf_token api_token session_token HF_TOKEN deploy-token private-token",
    "api-key": "api_key apiKey API_KEY APIKEY api-key x-api-key X-API-Key OPENAI_API_KEY openaiApiKey STRIPE_KEY aws_secret_access_key AWS_SECRET_ACCESS_KEY "
    "secretAccessKey access_key accountKey subscription-key Ocp-Apim-Subscription-Key algoliaAdminKey SENDGRID_KEY service_role_key datadog_api_key DD_APP_KEY "
    "license_key writeKey integration_key MAPS_API_KEY google_api_key apikey",
}
_VALUES = {
    "password": ("{human}", "{human}", "{human}", "{alnum:16}", "{alnum:24}"),
    "secret": ("{alnum:32}", "{hex:64}", "{b64:43}=", "{b64url:40}", "{hex:32}", "{alnum:20}~{alnum:12}"),
    "token": ("{alnum:40}", "{hex:40}", "{b64url:43}", "{uuid}", "{alnum:24}", "{hex:32}"),
    "api-key": ("{hex:32}", "{alnum:32}", "{alnum:40}", "{b64:40}", "{uuid}", "{hex:40}", "{alnum:24}", "{upper:28}"),
}
# K is the key, V the value. Bare: the value stands alone; quoted: in quotes of its own.
_BARE = """
K=V|K: V|K = V|export K=V|K := V|- K: V|  K: V\\nhost: db.example.org|host=db.example.org\\nK=V\\nport=5432|[default]\\nK = V\\nregion = eu-west-1
set K=V|ENV K=V|ENV K V|ARG K=V\\nRUN make install|docker run -e K=V -p 8080:80 web:latest|K=V ./deploy.sh --verbose|env K=V python manage.py migrate
deploy --K V --region eu-west-1|deploy --K=V --verbose|tool -K=V run|java -DK=V -jar app.jar|helm install web chart --set auth.K=V --wait
kubectl create secret generic web --from-literal=K=V -n prod|heroku config:set K=V --app web|https://api.example.org/v1/items?K=V&limit=10
curl "https://api.example.org/v1/items?limit=10&K=V"|curl -H 'K: V' https://api.example.org/items|GET /items HTTP/1.1\\nHost: example.org\\nK: V\\nAccept: */*
Server=db.example.org;User Id=app;K=V;Encrypt=true|host=db user=app K=V dbname=main|<K>V</K>|<config><host>db</host><K>V</K></config>
<entry key="K">V</entry>|<property name="K" value="V"/>|<add key="K" value="V" />|<string name="K">V</string>|+K=V|-K: V\\n+K: changed
@@ -1,2 +1,2 @@\\n-K=V\\n+K=${NEW}|ERROR startup failed with K=V while connecting to db|login failed (K=V, user=ann)|config: {K: V, host: db}
K%3dV%26limit%3D10|%22K%22%3A%22V%22|{\\"K\\":\\"V\\",\\"host\\":\\"db\\"}|{\\\\\\"K\\\\\\":\\\\\\"V\\\\\\"}|| K | V |\\n| host | db ||- name: K\\n  value: V\\n- name: HOST\\n  value: db
{&quot;K&quot;: &quot;V&quot;}|\\x1b[31mK\\x1b[0m=V|# K=V|// K: V|; K=V|/* K: V */|"K=V"|'K=V'|`K=V`|(K=V)|K=V,host=db|K=V; host=db|K => V|K -> V
//registry.example.org/:K=V|git config --global web.K V|aws configure set K V|$env:K = 'V'|setx K V|os.environ["K"]=V
"""
_QUOTED = """
K="V"|K='V'|K = "V"|K: "V"|"K": "V"|'K': 'V'|{"K": "V", "host": "db"}|{'K': 'V', 'host': 'db'}|export K="V"|export K='V'|const K = "V";|let K: string = 'V';
var K string = "V"|K := "V"|String K = "V";|private static final String K = "V";|val K: String = "V"|K => 'V',|:K => "V"|$K = 'V';|define('K', 'V');|K = `V`
os.environ["K"] = "V"|os.environ.setdefault("K", "V")|os.getenv("K", "V")|process.env.K || "V"|config.set("K", "V")|Map.of("K", "V")|set_K("V")|client.K("V")
connect(host="db", K="V", port=5432)|Client(K='V')|new Client({ K: "V", region: "eu" })|headers={"K": "V", "Accept": "*/*"}|headers.append('K', 'V')|if K == "V":|assert K == 'V'
SET @K = 'V';|ALTER USER ann WITH K 'V'|let K = String::from("V");|static char K[] = "V";|#define K "V"|K=f"V"|K = b'V'|dict(K="V")|--K "V"|--K='V' --verbose|["--K", "V", "--host", "db"]
- K: "V"\\n  host: db|[auth]\\nK = "V"\\nhost = "db"|variable "K" {\\n  default = "V"\\n}|[{"name":"K","value":"V"},{"name":"HOST","value":"db"}]|[{"value":"V","name":"K"}]
{"key": "K", "value": "V"}|{"Name": "K", "Value": "V"}|<input name="K" value="V">|+    "K": "V",|-  K = 'V'|12: K = "V"|  12 |   K = 'V'|{\\"K\\": \\"V\\"}|{\\\\\\"K\\\\\\": \\\\\\"V\\\\\\"}
"""
_TOKEN_TEXT = """
V|token V here|the key is V.|"V"|'V'|`V`|(V)|<V>|[V]|V,|V;|V:|=V|key=V&x=1|X: V|Authorization: Bearer V|Authorization: token V|curl -H "X: V" https://example.org|https://example.org/?x=V|https://ann:V@example.org/a.git
https://V@example.org/a.git|error: invalid value 'V' (401 Unauthorized)|2025-01-01T00:00:00Z INFO using V|const x = "V";|x = 'V'  # production|+x = "V"|-x: V|  - V|| V ||x\\nV\\ny|x\\tV\\ty
\\x1b[32mV\\x1b[0m|\\x1b[1;31mV\\x1b[0m|x=%22V%22|%3dV%26|\\"V\\"|\\\\\\"V\\\\\\"|\\nV\\n|{\\"x\\":\\"V\\"}|&quot;V&quot;|print("V")|echo V | tee log|export X=V|X="V" make|--x V|--x=V|a,V,b|V/|/V|:V|<x>V</x>|<x y="V"/>|${X:-V}|x[V]|# V|// V|/*V*/|file_V.txt
"""


def _lines(block: str) -> list[str]:
    text = (
        block.strip()
        .replace("\\\\", "\0")
        .replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\x1b", "\x1b")
        .replace('\\"', '\\"')
        .replace("\0", "\\")
    )
    found: list[str] = []
    for line in re.split(r"\n(?=\S)", block.strip()):
        found += _split(line)
    del text
    return [
        item.replace("\\\\", "\0")
        .replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\x1b", "\x1b")
        .replace("\0", "\\")
        for item in found
        if item
    ]


def _split(line: str) -> list[str]:
    """Carriers are divided by `|` without blanks around it: a table or a pipe keeps its own."""
    return re.split(r"(?<![ |])\|(?=[^ |])", line)


def _filled(carrier: str, key: str, secret: str) -> str:
    """`carrier` with its K and V filled in; ENV and OVER keep their letters."""
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
    carriers = _lines(_TOKEN_TEXT)
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
            carrier = carriers[rng.randrange(len(carriers))]
            wrapper, value = _wrap(_filled(carrier, "x", secret), rng)
            yield Fake(rule.id, f"{wrapper}: {carrier}", value, secret, _words(carrier))


def _disguised(rule: Rule, secret: str, rng: random.Random) -> Fake:
    """URL-encoded, escaped, in base64, broken over lines, with invisible characters."""
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
    bare, quoted = _lines(_BARE), _lines(_QUOTED)
    for kind, keys in _KEYS.items():
        for number in range(per_kind):
            carrier = (bare, quoted)[number % 2][rng.randrange(len((bare, quoted)[number % 2]))]
            key = rng.choice(keys.split())
            secret = assemble(rng.choice(_VALUES[kind]), rng)
            if "K(" in carrier or "K[" in carrier or "@K" in carrier or "K:" == carrier[:2] and "." in key:
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
    for kind, keys in _KEYS.items():
        for key in keys.split():
            for shape in rng.sample(shapes, 6):
                secret = (
                    rich(rng) if kind == "password" and rng.random() < 0.3 else assemble(rng.choice(_VALUES[kind]), rng)
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


def _whole_fakes(rules: tuple[Rule, ...], rng: random.Random) -> Iterator[Fake]:
    """The examples of rules that bring their own surroundings, in every wrapper."""
    for rule in rules:
        if rule.family not in ("structure", "command", "keyed"):
            continue
        for example in rule.examples:
            for _ in range(12):
                made = [_piece_text for _piece_text in _pieces(example, rng)]
                text = "".join(made)
                secrets = [
                    piece
                    for piece, spec in zip(made, _PIECE.split(example)[::1], strict=False)
                    if spec and len(piece) >= 8
                ]
                longest = max(_secret_pieces(example, made), key=len, default="")
                if not longest:
                    break
                wrapper, value = _wrap(text, rng)
                yield Fake(rule.id, f"{wrapper}: {example}", value, longest, ())
                del secrets


def _pieces(spec: str, rng: random.Random) -> list[str]:
    """`spec` assembled, piece by piece: literal, made up, literal, made up …"""
    parts: list[str] = []
    at = 0
    for m in _PIECE.finditer(spec):
        parts += [spec[at : m.start()], _piece(m[1], int(m[2] or 0), rng)]
        at = m.end()
    return [*parts, spec[at:]]


def _secret_pieces(spec: str, parts: list[str]) -> list[str]:
    return [part for part in parts[1::2] if len(part) >= 8]


def _words(carrier: str) -> tuple[str, ...]:
    return tuple(
        re.findall(r"(?<![A-Za-z])[a-z]{4,}(?![A-Za-z])", re.sub(r"\\.|%[0-9A-F]{2}|\x1b\[[0-9;]*m", " ", carrier))
    )


def survives(fake: Fake, value: Any) -> bool:
    """Is the secret, or at least half of it (8 characters or more), still in `value`?"""
    text = "\0".join(_strings(value))
    length = min(len(fake.secret), max(8, -(-len(fake.secret) // 2)))
    said = {fake.secret[i : i + length] for i in range(len(fake.secret) - length + 1)}
    return any(
        part in form
        for form in (text, text.replace("\u200b", "").replace("\\", ""), re.sub(r"\s+", "", text))
        for part in said
    )


def kept(fake: Fake, value: Any) -> bool:
    """Are the words around the secret still there?"""
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


_HARMLESS_TEXT = r"""
password_field = form.password
token = get_token()
token = get_token2(user)
apiKey == ""
if (apiKey === "") {
"api_key=" + var
url = base + "?api_key=" + encodeURIComponent(key)
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
max_tokens: 4096
"max_tokens": 4096, "temperature": 0.2
max_tokens=4096, top_p=0.95
max_output_tokens = 8192
total_tokens: 15234
{"usage": {"input_tokens": 1234, "output_tokens": 567, "cache_read_input_tokens": 89012}}
token_type: bearer
"token_type": "Bearer", "expires_in": 3600
author: Ann Example
authors = ["Ann Example"]
secret_name = "prod/db/main"
secretName: my-app-tls
secretKeyRef:\n  name: db-credentials\n  key: password
public_key = load_pem_public_key(data)
idempotency_key = "order-2024-11-03-0001"
idempotency_key: 7f3c2a10-5b1e-4c8e-9a59-0d6c1f1f7a11
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
Authorization: Bearer ${API_TOKEN}
Authorization: Bearer {{ token }}
Authorization: Bearer YOUR_API_KEY
Authorization: Bearer ...
Authorization: Basic <base64>
Authorization: Bearer %s
headers = {"Authorization": f"Bearer {token}"}
headers = {"Authorization": "Bearer " + token}
headers: { Authorization: `Bearer ${token}` }
req.Header.Set("Authorization", "Bearer "+token)
curl -H "Authorization: Bearer $GITHUB_TOKEN" https://api.github.com/user
curl -u "$USER:$PASS" https://example.org
curl -u user https://example.org
curl -u username:password https://example.org
mysql -u root -p
mysql -u root -p mydb
mysql -h localhost -P 3306 -u root -p$MYSQL_PASSWORD
mysqldump -u root -p"${DB_PASS}" app
psql -h localhost -p 5432 -U app main
docker run -p 8080:80 nginx
docker login -u ann --password-stdin registry.example.org
docker login -u $USER -p $PASSWORD
ssh -p 2222 host
scp -P 2222 a.txt host:/tmp
kubectl port-forward svc/web 8080:80 -n prod
sshpass -e ssh host
PGPASSWORD=$DB_PASSWORD psql
export GITHUB_TOKEN=$(gh auth token)
export API_KEY=${API_KEY:-}
export TOKEN="$(cat /run/secrets/token)"
TOKEN=$(vault read -field=token secret/ci)
API_KEY=
API_KEY=""
PASSWORD=''
PASSWORD=changeme
password: changeme
DB_PASSWORD=password
password: "<YOUR_PASSWORD>"
password: ${DB_PASSWORD}
password: {{ .Values.db.password }}
password: {{ vault_db_password }}
password: !vault |
password: !secret db_password
password: ENC[AES256_GCM,data:...]
password: null
password: ~
password: ""
password: "********"
password=******
password: [redacted]
password: [REDACTED]
password: (hidden)
token: xxxx
token: xxxxxxxxxxxxxxxx
api_key: XXXXXXXXXXXXXXXXXXXXXXXX
api_key = "your-api-key"
api_key = "YOUR_API_KEY_HERE"
api_key = "<your api key>"
api_key: your_api_key_here
apiKey: process.env.API_KEY
apiKey: process.env.OPENAI_API_KEY!
apiKey: import.meta.env.VITE_API_KEY
api_key=os.environ["OPENAI_API_KEY"]
api_key = os.getenv("OPENAI_API_KEY")
api_key = os.environ.get("API_KEY", "")
token = os.environ['GITHUB_TOKEN']
secret = config.get("secret")
secret = settings.SECRET_KEY
SECRET_KEY = env("SECRET_KEY")
password = getpass.getpass("Password: ")
password = input("Enter password: ")
password = request.form["password"]
password = request.POST.get('password1')
password = data['password2']
const { password } = req.body;
const token = await getToken();
const token = req.headers.authorization?.split(" ")[1];
const token = localStorage.getItem("token");
let token = tokens[i + 1];
this.token = token;
self.password = password
self._token = token2
token: str
token: Optional[str] = None
password: string;
password?: string
readonly password: string,
password: SecretStr
password: z.string().min(8)
password = models.CharField(max_length=128)
password = serializers.CharField(write_only=True, min_length=8)
private String password;
public void setPassword(String password) {
password VARCHAR(255) NOT NULL
passwordHash: bcrypt.hashSync(password, 10)
password: await bcrypt.hash(password, 12)
if password != confirm_password:
if (password !== password2) return false;
assert token == expected_token
return token
return { token, user }
def verify_token(token: str, secret: str) -> bool:
def login(username, password):
login(username=username, password=password)
fields = ("username", "password1", "password2")
fields = ["email", "password", "token"]
<input type="password" name="password" id="password" placeholder="Password" />
<input type="hidden" name="csrf_token" value="{{ csrf_token }}">
<label for="password">Password</label>
<Password/>
<password></password>
<password>${db.password}</password>
<property name="password" value="${db.password}"/>
<add key="password" value="" />
type: password
type="password"
name: password\n  in: query\n  required: true
- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db\n      key: password
- name: API_KEY\n  value: ""
- name: TOKEN\n  value: $(TOKEN)
parser.add_argument("--password", help="the password")
parser.add_argument("--token", default=None)
parser.add_argument('--api-key', required=True)
@click.option("--password", prompt=True, hide_input=True)
Usage: tool --token TOKEN --password PASSWORD
  --password string   Password for the registry
  --token <token>     The access token
  -p, --password=PASSWORD  password to use
tool --password-stdin < file
tool --token-file /run/secrets/token
tool --password-file ./secrets/pw.txt
password must be at least 8 characters
Your password has expired
Invalid password
invalid token
Incorrect password for user 'ann'
Error: Unexpected token '}' in JSON at position 42
SyntaxError: Unexpected token < in JSON at position 0
SyntaxError: Unexpected token u in JSON at position 1
Unexpected token ILLEGAL (12:5)
error: expected token `;`, found `let2`
ParseError: unknown token id123 at line 4
401 Unauthorized: token expired at 2024-11-03T10:00:00Z
Authentication failed: missing API key
password authentication failed for user "postgres"
FATAL: password authentication failed for user "app2"
Access denied for user 'root'@'localhost' (using password: YES)
the secret is in the details
The token is invalid
the password is required
what is the password for this?
key: value
key=value
foreign_key = "user_id"
primary_key: id
primary_key=True
cache_key = "user:123:profile"
cache-key: v2-deps-linux-9f86d081884c7d659a2feaa0c55ad015
key: ${{ runner.os }}-npm-${{ hashFiles('**/package-lock.json') }}
sort_key="created_at"
s3_key = "uploads/2024/11/03/report.pdf"
object_key: images/logo@2x.png
next_page_token: "abc123def456ghi789jkl"
nextPageToken: CAUQAA2b3c4d5e6f
continuation_token = response.token
cursor: eyJpZCI6MTAwfQ==
csrf_token: {{ csrf_token() }}
{% csrf_token %}
secrets.token_hex(32)
secrets.choice(alphabet)
${{ secrets.GITHUB_TOKEN }}
GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}
env:\n  NPM_TOKEN: ${{ secrets.NPM_TOKEN }}
//registry.example.org/:_authToken=${NPM_TOKEN}
aws_access_key_id = %(key)s
AWS_SECRET_ACCESS_KEY: arn:aws:secretsmanager:us-east-1:123456789012:secret:prod
password: op://Private/db/password
secret: vault:secret/data/db#password
keyPrefix: "app:"
keyboard = Keyboard2()
monkey = 1
passport = "passport-local"
compass: N3
bypass = True
passes = 3
pass_rate: 0.95
tests passed: 12
pwd=/srv/app
PWD=/srv/app/src
OLDPWD=/tmp
oldpwd = os.getcwd()
cd $(pwd)/src2
postgres://user:password@localhost:5432/db
postgres://${USER}:${PASS}@${HOST}/db
postgres://<user>:<password>@<host>/db
postgres://localhost:5432/main
mysql://root@localhost/test
mongodb://localhost:27017
redis://localhost:6379/0
https://example.org:8443/path/@scope/pkg
http://localhost:3000/@vite/client
https://user@example.org/x.git
git@github.com:org/repo.git
ssh://git@github.com/org/repo.git
npm:react@18.2.0
"lodash@npm:^4.17.21"
mailto:help@example.org
https://example.org/login?next=/home&token=
https://example.org/reset?token=<token>
https://example.org/x?key=user-profile-settings&sort=asc
https://fonts.googleapis.com/css2?family=Inter:wght@400;700&display=swap
https://example.org/a?v=1730000000&hash=main
#ff8800 #0a0b0c
color: #c0ffee;
v1.2.3-rc.4+build.5678
2024-11-03T10:20:30.123456Z
192.168.10.20:8080
0x7ffeefbff5c8
127.0.0.1 - - [03/Nov/2024:10:20:30 +0000] "GET /login HTTP/1.1" 200 512
at Object.<anonymous> (src/app/tokens.ts:12:5)
File "app/auth/password_reset.py", line 42, in reset_password
src/auth/token_service2.py
app/models/api_key.rb
tests/test_password_hashing.py::test_bcrypt_roundtrip PASSED
/run/secrets/db_password
./secrets/api-key.txt
config/credentials.yml.enc
from secrets import token_urlsafe
import { useToken } from "./useToken";
import tokenize, token
class TokenBucket2(RateLimiter):
tokenStream.nextToken2()
const TOKEN_REGEX = /[a-z0-9]+/gi;
enum TokenKind { Ident, Number, String }
token.kind === TokenKind.Ident
Token(type='NUMBER', value='42')
{"type": "token", "value": "word"}
{"token": "hello", "logprob": -0.01}
{"token": "The", "bytes": [84, 104, 101]}
design-tokens: { color: "blue" }
--vscode-debugTokenExpression-string: #ce9178;
.token.comment { color: #999; }
token_ids = [101, 2023, 2003, 102]
bos_token: "<s>", eos_token: "</s>", pad_token: "[PAD]"
"bos_token_id": 128000, "eos_token_id": 128009
pad_token = "<|endoftext|>"
tokens_per_second: 123.4
password_min_length = 12
password_max_age: 90d
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [{"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"}]
AUTH_USER_MODEL = "accounts.User2"
auth: required
auth = OAuth2Session(client_id)
auth=(user, password)
auth=HTTPBasicAuth(username, password)
smtp.login(user, password)
client.authenticate(username, password)
credentials: include
credentials: 'same-origin'
credentials = service_account.Credentials.from_service_account_file("key.json")
cookie: true
Cookie: theme=dark; lang=en
Set-Cookie: theme=dark; Path=/; Max-Age=31536000
document.cookie = "theme=dark"
session_id: 3b1f8a40-93f1-4b5c-8a51-0c7e0c9f1b2d
"sessionId": "sess_local"
session.get("user2")
signature: (a: number, b2: string) => void
"signature": "def foo(x1, y2)"
sig = inspect.signature(func2)
salt = os.urandom(16)
nonce = base64.b64encode(os.urandom(12))
hashlib.sha256(b"abc123").hexdigest()
integrity sha512-oRGBZ1IaLTsC6vqDsEgBxEsCBAAm5tcpfVSh5TfR5OyyOpSJ5S4U7zAGrNHQIYzbT5mZzqqGfYrqhaBPE0BKpw==
"integrity": "sha512-oRGBZ1IaLTsC6vqDsEgBxEsCBAAm5tcpfVSh5TfR5OyyOpSJ5S4U7zAGrNHQIYzbT5mZzqqGfYrqhaBPE0BKpw=="
bearer token authentication
Bearer authentication is required
WWW-Authenticate: Bearer realm="example"
WWW-Authenticate: Basic realm="Restricted"
Basic authentication failed
basic usage2 example
-----BEGIN PUBLIC KEY-----
-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----
grep -rn "BEGIN RSA PRIVATE KEY" .
if "-----BEGIN PRIVATE KEY-----" in text:
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8Zp1pQe5Gx3n2m0tYbq7hXzv4kD2c1S9aW6rT5uYpL ann
sk-...
sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
OPENAI_API_KEY=sk-...
ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
AKIAXXXXXXXXXXXXXXXX
xoxb-your-token
task-12345678901234567890abcd
risk-assessment-framework-2024
desk-lamp
sk-learn
.sk-toggleable__label-arrow
disk-usage-report-2024-11-03.csv
mask-rcnn-resnet50-fpn-coco
npm_config_user_config
npm_package_version=1.2.3
hf_hub_download(repo_id="bert-base-uncased")
pypi-attestations
IDENTIFIED BY ?
CREATE USER app IDENTIFIED BY :password
echo "done" | tee log.txt
echo $PASSWORD | docker login --password-stdin
echo "$TOKEN" | gh auth login --with-token
vault login -method=oidc
npm login --registry=https://registry.example.org
gh auth login --hostname example.org
aws sso login --profile dev
az login --use-device-code
net user ann /delete
htpasswd -c .htpasswd ann
openssl rsa -in key.pem -passin env:PASS
openssl genrsa -out key.pem 2048
7z x archive.7z -oout
zip -r src.zip src
keytool -list -keystore cacerts
ldapsearch -x -b dc=example,dc=org
redis-cli -h localhost ping
mongosh --port 27017
{"name": "password", "type": "string", "required": true}
{"name": "API_KEY", "value": ""}
{"name": "API_KEY", "value": "<set me>"}
{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "ci", "key": "token"}}}
{"key": "password", "label": "Password"}
{"id": "token", "title": "Token count", "value": 12}
{"field": "password", "error": "too short"}
{"password": "required", "email": "invalid"}
{"properties": {"password": {"type": "string", "minLength": 8}, "token": {"type": "string"}}}
{"errors": {"password": ["This password is too common."]}}
{"password": null, "token": "", "secret": false}
| password | string | yes |
| `token` | the access token |
| api_key | Your API key | required |
git commit -m "Fix token refresh in auth2 module"
feat(auth): rotate tokens every 24h
TODO: remove hard-coded password
the password field2 is missing
See https://example.org/docs/authentication#api-keys
AccountKey=<key>
AccountName=dev;AccountKey=${KEY};EndpointSuffix=core.windows.net
Server=localhost;Database=app;Trusted_Connection=True;
Server=db;User Id=app;Password=${DB_PASSWORD};
jdbc:postgresql://localhost:5432/main
jdbc:mysql://localhost:3306/app?useSSL=false&user=root
secretsmanager:GetSecretValue
kms:Decrypt
arn:aws:iam::123456789012:role/deploy-2024
SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU
etag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
commit 9fceb02d0ae598e95dc970b74767f19372d61af8
index 83db48f..bf2a5c1 100644
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
image: registry.example.org/app@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
--hash=sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
resolved "https://registry.yarnpkg.com/lodash/-/lodash-4.17.21.tgz#679591c564e3bffaae8454cf0b3df370c3ce8110"
github.com/stretchr/testify v1.8.4 h1:CcVxjf3Q8PM0mHUKJCdn+eZZtm5yQwehR5yeSVQQcUk=
checksum = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
"""


def harmless(seed: int) -> Iterator[Any]:
    """Values without a secret, hundreds of them: each must come back unchanged, and as the same object."""
    rng = random.Random(seed)
    for line in _HARMLESS_TEXT.strip().split("\n"):
        text = line.replace("\\n", "\n")
        yield text
        yield _wrap(text, rng)[1]
    for _ in range(25):
        yield from _made_up(rng)
    yield from _HARMLESS_VALUES


def _made_up(rng: random.Random) -> Iterator[Any]:
    """Ids, hashes and the like, fresh each time."""

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
