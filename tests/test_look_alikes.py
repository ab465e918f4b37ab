"""Texts about secrets stay as they are; a secret in the same place goes."""

from __future__ import annotations

import random
from functools import cache

import pytest

from collector.sanitise.redactions import load_rules
from collector.sanitise.sanitise import Sanitiser
from tests.secrets import assemble

_PASSWORD = assemble("{human}", random.Random(7))
_TOKEN = assemble("{alnum:32}", random.Random(7))
_AROUND = (
    "{}",
    "   12\tname: app\n   13\t{}\n   14\tport: 80",
    "@@ -1,2 +1,2 @@\n-{}\n+{}\n context",
    '{"command": "{}"}',
    "src/app.py:12: {}",
)


@cache
def _sanitiser() -> Sanitiser:
    return Sanitiser(load_rules(), personal="keep")


# What stands for the secret in each place: a placeholder, a reference, a type, a word of a sentence.
@pytest.mark.parametrize(
    ("place", "harmless", "secret"),
    [
        ("DB_PASSWORD={}", "@@PASSWORD@@ (empty) mysecret ed25519 argon2id []byte &str postgres", _PASSWORD),
        ("API_KEY={}", "sk-proj-... sk-ant-api03-... AIza... sk-ant-your-key (redacted) @key.txt", _TOKEN),
        (
            "password: {}",
            "Optional[str] Option<String> varchar(255) get_secret('prod/db') env('DB_PW') *string",
            _PASSWORD,
        ),
        ("$password = {};", "$_POST['password2'] $config['db']['pass1'] $Config->{pass_1} $env:PW", _PASSWORD),
        ("docker run -e MYSQL_ROOT_PASSWORD={}", "$PW~mysql:8 ${PW}~mysql:8", _PASSWORD),
        ("fly secrets set API_TOKEN={}", "$TOKEN ${TOKEN}", _TOKEN),
        ("https://x-access-token:{}", "***@github.com/o/r $TOKEN@github.com/o/r", f"{_PASSWORD}@github.com/o/r"),
        ("echo '{}' | sudo -S ls", "password $PASSWORD", _PASSWORD),
        ("Set-Cookie: session={}; Path=/", "deleted <redacted>", _TOKEN),
        ("the --password {}", "option flag and~--user is~deprecated requires~an~argument", _PASSWORD),
        ("OTP_SECRET: {}", "otpSecret otp-secret", _TOKEN),
    ],
)
@pytest.mark.parametrize("around", _AROUND)
def test_what_stands_for_a_secret_stays(place: str, harmless: str, secret: str, around: str) -> None:
    for value in harmless.split(" "):
        text = around.replace("{}", place.replace("{}", value.replace("~", " ")))
        assert _sanitiser().scrub(text) == (text, ())
    assert secret not in _sanitiser().scrub(around.replace("{}", place.replace("{}", secret)))[0]


# Lines that only look as if a key announced something.
@pytest.mark.parametrize(
    "text",
    [
        "curl -u elastic:$ELASTIC_PASSWORD localhost:9200",
        "**Username/Password Authentication:** see below",
        "2. **API Key Acquisition**: get one from the dashboard",
        "Values from the secret **override** anything already in the environment.",
        "/** Estimated token count (using tiktoken 'gpt-4o'). */",
        "Clients send `Authorization: Bearer change-me`. Put a proxy in front.",
        "`Authorization: Bearer ntn_****` only when the server asks",
        "Authorization: 'Bearer gateway-secret'",
        "access token (Authorization: Bearer fco_...) or API key",
        "hadRefreshToken: !!cached?.refresh_token,",
        "const oauthConfig = this.#options.oauth;",
        "pattern: /auth|unauthorized|invalid.*token|expired.*token/i,",
        "aider --model o3 --api-key openai=<key>",
        "aider --model o3 --api-key anthropic=your-key-goes-here",
        "| `FASTMCP_SERVER_AUTH`, `FASTMCP_SERVER_AUTH_*` | transport |",
        '"SecretArn": "arn:aws:secretsmanager:us-west-2:123456789012:secret:proxysecret1-Abcd1e"',
        '"NextLockToken": "1eb5ec48-0000-4000-8000-ee9b906c541e"',
        "aws route53 list-hosted-zones --starting-token Z3M3LMPEXAMPLE7",
        'password = ":****"',
        'USER_PASSWD = "%s:%s" % (USER, PASSWD)',
        "7z x -p$PW a.7z",
        "sed -i 's/password: .*/password: REDACTED/' config.yml",
        'sed -i "s/PASSWORD=.*/PASSWORD=$PW/" .env',
        "docker run -e API_KEY -e DB_PASSWORD app:v2",
        "docker build --secret id=npmrc,src=$HOME/.npmrc .",
        "az keyvault secret set --vault-name kv --name db-pw --file pw.txt",
        "gpg --export-secret-keys ABCD1234 > k.asc",
        "vault login -method=userpass username=bob1",
        ': "${API_KEY:?API_KEY must be set}"',
        "rg 'token: \"[a-z0-9]+\"' --type ts",
        "pytest tests/auth/test_api_key.py::TestApiKey::test_rotate_2",
        "test auth::tests::token_v2_roundtrip ... ok",
        "--- PASS: TestPasswordHash123 (0.05s)",
        "error: argument --password: expected one argument",
        '"@types/jsonwebtoken": "^9.0.6"',
        "password: '$2b$10$...'",
        "id_token_encrypted_response_enc value is A128CBC-HS256. When",
        "mongodb+srv://<username>:<password>@c0.example.org/ or <uri>",
        ":type passphrase: :py:data:`bytes`",
    ],
)
def test_what_announces_nothing_stays(text: str) -> None:
    assert _sanitiser().scrub(text) == (text, ())


@pytest.mark.parametrize(
    "line",
    [
        "password = Column(String(128))",
        "pwd = os.getcwd()",
        "pass show work/db-password",
        "1Password integration v2.14 is enabled",
    ],
)
def test_a_removed_line_of_a_diff_is_no_flag(line: str) -> None:
    text = f"@@ -1 +1 @@\n-{line}\n+{line}\n"
    assert _sanitiser().scrub(text) == (text, ())
    flag = f"tool \\\n-password {_PASSWORD.lower()}x \\\n-v"
    assert _PASSWORD.lower() not in _sanitiser().scrub(flag)[0]
