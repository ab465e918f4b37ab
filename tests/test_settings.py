"""Settings: flags over environment over file over defaults, and all mistakes reported at once."""

from __future__ import annotations

import os
import re
from pathlib import Path

import httpx
import pytest

from collector.engine.duckdb.open import path_of
from collector.engine.duckdb.store import Store
from collector.errors import StoreError
from collector.serve import store_of
from collector.setting_values import Address, address, duration, size
from collector.settings import Settings, SettingsError, check_dashboard, load, without_proxy


def test_defaults_need_nothing(tmp_path: Path) -> None:
    assert load({}, {}, tmp_path / "misstep.toml") == Settings()


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "misstep.toml"
    file.write_text('http = "127.0.0.1:1"\ngrpc = "127.0.0.1:2"\nretention = "7d"\ningest_tokens = ["a", "b"]\n')
    settings = load(
        {"http": "127.0.0.1:9", "store": None}, {"MISSTEP_HTTP": "127.0.0.1:5", "MISSTEP_GRPC": "[::1]:6"}, file
    )
    assert (settings.http, settings.grpc) == (Address("127.0.0.1", 9), Address("::1", 6))
    assert (settings.retention, settings.ingest_tokens) == (7 * 86_400, ("a", "b"))


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"MISSTEP_HTTP": "127.0.0.1:5318"}, "http://127.0.0.1:5318"),
        ({"MISSTEP_HTTP": ":5318", "MISSTEP_OPEN": "true"}, "http://127.0.0.1:5318"),
        ({"MISSTEP_HTTP": "[::1]:5318"}, "http://[::1]:5318"),
        ({"MISSTEP_HTTP": "127.0.0.1:0"}, "http://127.0.0.1:4318"),  # nobody knows the port yet
        ({"MISSTEP_HTTP": "127.0.0.1:5318", "MISSTEP_COLLECTOR_URL": "http://other:1"}, "http://other:1"),
    ],
)
def test_commands_ask_the_collector_where_it_listens(environ: dict[str, str], url: str, tmp_path: Path) -> None:
    assert load({}, environ, tmp_path / "none").collector_url == url


def test_every_mistake_is_named_with_its_place_and_remedy(tmp_path: Path) -> None:
    file = tmp_path / "misstep.toml"
    file.write_text('retention = "long"\ncolour = "red"\n')
    with pytest.raises(SettingsError) as error:
        load({"http": "4318"}, {"MISSTEP_PERSONAL": "hide"}, file)
    text = str(error.value)
    for piece in ("misstep.toml: retention = 'long'", "30d", "colour is no setting", "command line: http = '4318'",
                  "host:port", "environment: personal = 'hide'", "mask, keep"):  # fmt: skip
        assert piece in text


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    file = tmp_path / "misstep.toml"
    file.write_text("this is = not toml")
    with pytest.raises(SettingsError, match="not TOML"):
        load({}, {}, file)


def test_nothing_in_the_file_is_not_set(tmp_path: Path) -> None:
    file = tmp_path / "misstep.toml"
    file.write_text(
        "\n".join(
            f'{name} = ""' for name in ("retention_export", "tables", "store", "http", "retention", "query_token")
        )
    )
    assert load({}, {}, file) == Settings()


def test_a_comma_in_an_entry_of_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "misstep.toml"
    file.write_text('ingest_tokens = ["hunter2,x"]\nforward_headers = ["a=b", "c=hunter2,d"]\n')
    with pytest.raises(SettingsError) as error:
        load({}, {}, file)
    for name in ("ingest_tokens", "forward_headers"):
        assert f"{file}: {name}: an entry has a comma, which separates entries" in str(error.value)
    assert "hunter2" not in str(error.value)


def test_names_of_hosts_are_taken_as_people_write_them() -> None:
    settings = load({"http": "LOCALHOST:4318"}, {"MISSTEP_ALLOWED_HOSTS": "Collector.internal, [::2],::3"})
    assert (settings.http.host, settings.allowed_hosts) == ("localhost", ("Collector.internal", "::2", "::3"))


@pytest.mark.parametrize("url", ["https://h/x?key=hunter2", "https://h?", "https://h/v1/logs#hunter2"])
def test_copies_go_where_a_path_can_be_added(url: str) -> None:
    with pytest.raises(SettingsError, match=r"forward = \*\*\*: write it without \? and #") as error:
        load({}, {"MISSTEP_FORWARD": url})
    assert "hunter2" not in str(error.value)


def test_beyond_loopback_needs_tokens_or_a_word() -> None:
    with pytest.raises(SettingsError, match="MISSTEP_INGEST_TOKENS"):
        load({"http": "0.0.0.0:4318"}, {})
    assert load({"http": ":4318"}, {"MISSTEP_OPEN": "true"}).http.host == "0.0.0.0"
    load({"http": ":4318"}, {"MISSTEP_INGEST_TOKENS": "a", "MISSTEP_QUERY_TOKENS": "b"})


def test_dashboard_beyond_loopback_needs_sign_in_or_a_word() -> None:
    beyond = {"dashboard": "0.0.0.0:8501"}
    tokens = {"MISSTEP_INGEST_TOKENS": "a", "MISSTEP_QUERY_TOKENS": "b", "MISSTEP_QUERY_TOKEN": "b"}
    remedy = r"dashboard = 0\.0\.0\.0:8501: .*127\.0\.0\.1:8501.*sign-in.*MISSTEP_OPEN=true"
    for environ in ({}, tokens):  # the dashboard sends its own token, whoever looks at it
        settings = load(beyond, environ)
        with pytest.raises(SettingsError, match=remedy):
            check_dashboard(settings, signs_in=False)
        check_dashboard(settings, signs_in=True)
    check_dashboard(load(beyond, {"MISSTEP_OPEN": "true"}), signs_in=False)
    check_dashboard(load({}, {}), signs_in=False)


def test_one_port_for_both_doors_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"http = '127.0.0.1:4317': one address for both doors; write a port"):
        load({"http": "127.0.0.1:4317"}, {})
    load({"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"}, {})  # the system chooses two


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("TABLES", "/nowhere/at/all", "no such folder"),
        ("TRACE_URL", "https://traces.example.com", "/trace/{trace_id}"),
        ("TRACE_URL", "{trace_id}", "write an address"),
        ("TRACE_URL", "https://traces.example.com/{traceid}", "{traceid} is no place; places are"),
        ("DASHBOARD_URL", "dashboard", "write an address"),
        ("COLLECTOR_URL", "127.0.0.1:4318", "write an address"),
        ("ALLOWED_HOSTS", "a.internal,collector.internal:4318", "write names alone"),
        ("ALLOWED_HOSTS", "https://collector.internal", "write names alone"),
        ("ALLOWED_HOSTS", "[::2]:4318", "write names alone"),
        ("RETENTION_EXPORT", __file__, "this is no folder"),
        ("FORWARD_QUEUE", "0", "write more than 0"),
        ("HTTP", "http://127.0.0.1:4318", "write host:port"),
    ],
)
def test_what_would_only_fail_later_is_refused_at_once(name: str, value: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        load({}, {f"MISSTEP_{name}": value}, tmp_path / "misstep.toml")
    assert f"{name.lower()} = {value!r}: " in str(error.value)
    assert remedy in str(error.value)


@pytest.mark.parametrize("text", ["0d", "500ms", "30m"])
def test_a_retention_that_would_delete_nearly_everything_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"retention = .*: write 1h or more, such as 30d \(m: minutes\)"):
        load({}, {"MISSTEP_RETENTION": text}, tmp_path / "misstep.toml")


@pytest.mark.parametrize("text", ["20", "20KB"])  # 20GB was meant
def test_a_size_in_which_nothing_has_room_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"retention_size = .*: write 1MB or more, such as 20GB"):
        load({}, {"MISSTEP_RETENTION_SIZE": text}, tmp_path / "misstep.toml")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"HTTP": "127.0.0.1:5000", "DASHBOARD": "127.0.0.1:5000"}, "write a port of its own for each"),
        ({"FORWARD": "http://localhost:4318"}, "is this collector itself"),
        ({"COLLECTOR_URL": "http://127.0.0.1:abc"}, "write an address such as"),
        ({"COLLECTOR_URL": "http://[::1"}, "write an address such as"),
        ({"HTTP": "127.0.0.1:5000", "FORWARD": "http://127.0.0.1:5000/"}, "is this collector itself"),
    ],
)
def test_addresses_that_cannot_be_meant_are_refused(settings: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=message):
        load({}, {f"MISSTEP_{name}": value for name, value in settings.items()}, tmp_path / "misstep.toml")


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("15 s", 15), ("1h30m", 5_400), ("1w", 604_800)])
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(("text", "count"), [("64MiB", 64 << 20), ("10", 10), ("2 KiB", 2048), ("20GB", 20 * 10**9)])
def test_sizes(text: str, count: int) -> None:
    assert size(text) == count


def test_memory_is_what_the_engine_may_use(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"memory = '20MB': write 100MB or more"):
        load({}, {"MISSTEP_MEMORY": "20MB"}, tmp_path / "misstep.toml")
    store = store_of(load({"store": "duckdb://:memory:"}, {"MISSTEP_MEMORY": "512MiB"}, tmp_path / "misstep.toml"))
    assert store.rows("select current_setting('memory_limit') as set") == [{"set": "512.0 MiB"}]
    store.close()


@pytest.mark.parametrize("text", ["", "localhost", "localhost:http", "localhost:99999"])
def test_addresses_need_a_port(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        address(text)


def test_what_does_not_go_together_is_reported_with_the_rest_and_where_it_was_written() -> None:
    environ = {"MISSTEP_RETENTION": "10m", "MISSTEP_LOG": "xml", "MISSTEP_FORWARD_HEADERS": "abc", "MISSTEP_QUEUE": "0"}
    with pytest.raises(SettingsError) as error:
        load({"retention_size": "5000", "store": ""}, environ)
    lines = str(error.value).splitlines()
    for line, piece in (
        ("environment: retention = '10m'", "write 1h or more"),
        ("environment: log = 'xml'", "write one of auto, json, text"),
        ("environment: forward_headers = ***", "entry 1: write name=value"),
        ("environment: queue = '0'", "write more than 0"),
        ("command line: retention_size = '5000'", "write 1MB or more"),
        ("command line: store = ''", "write a value, or leave it out"),
    ):
        assert [one for one in lines if one.startswith(line) and piece in one], line
    assert len(lines) == 6


def test_a_line_end_is_no_part_of_a_token() -> None:
    settings = load({}, {"MISSTEP_QUERY_TOKEN": "a\n", "MISSTEP_QUERY_TOKENS": "a, b\r\n"})
    assert (settings.query_token, settings.query_tokens) == ("a", ("a", "b"))


@pytest.mark.parametrize("given", [{}, {"NO_PROXY": "a.b, c"}, {"no_proxy": "a.b", "NO_PROXY": "x"}, {"NO_PROXY": "*"}])
def test_the_proxy_of_the_environment_is_not_for_loopback(given: dict[str, str]) -> None:
    environ = {"HTTP_PROXY": "http://proxy:3128", **given}
    without_proxy(environ)
    kept = given.get("no_proxy") or given.get("NO_PROXY", "")
    here = "" if kept == "*" else "127.0.0.1,::1,localhost"
    assert environ.get("NO_PROXY") == ",".join(filter(None, (kept.replace(" ", ""), here)))
    assert kept == "*" or environ["no_proxy"] == environ["NO_PROXY"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("fd00::/8,corp", "corp,"),
        ("[::1]", "::1,"),
        ("[fd00::1]:80", ""),
        ("::1/128, 10.0.0.0/8", "10.0.0.0/8,"),
        ("fd00::1,host:80", "fd00::1,host:80,"),
    ],
)
def test_what_httpx_cannot_read_in_no_proxy_is_left_out(given: str, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": given})
    without_proxy(os.environ)
    assert os.environ["NO_PROXY"] == f"{kept}127.0.0.1,::1,localhost"
    httpx.Client().close()


def test_a_variable_that_nearly_is_a_setting_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"INGEST_TOKEN is no setting; did you mean MISSTEP_INGEST_TOKENS\?"):
        load({}, {"MISSTEP_INGEST_TOKEN": "hush"})
    load({}, {"MISSTEP_OF_SOMEBODY_ELSE": "x", "MISSTEP_QUERY_TOKEN": "t"})


STORES = {
    "duckdb:///data/x.duckdb": Path("data/x.duckdb"),
    "duckdb:////data/x#1?.duckdb": Path("/data/x#1?.duckdb"),
    "duckdb://:memory:": None,
    "duckdb:///:memory:": None,
}


@pytest.mark.parametrize("url", STORES)
def test_the_file_that_a_store_names(url: str) -> None:
    assert path_of(url) == STORES[url]


def test_a_tilde_is_the_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    names = ("rules", "retention_export", "tables")
    settings = load({}, {"MISSTEP_TABLES": "~", **{f"MISSTEP_{name.upper()}": f"~/{name}" for name in names[:2]}})
    assert [getattr(settings, name) for name in names] == [home / "rules", home / "retention_export", home]
    Store.open("duckdb:///~/x/y.duckdb").close()
    assert path_of("duckdb:///~/x/y.duckdb") == home / "x/y.duckdb"
    assert (home / "x/y.duckdb").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize(
    ("url", "remedy"),
    [("duckdb://data/x.duckdb", "duckdb:///data/x.duckdb for a relative path"), ("duckdb:///", "names no file"),
     ("x.duckdb", "a URL without a scheme is not known"), ("mysql://h/x", "mysql is not known")],
)  # fmt: skip
def test_a_store_that_names_no_file_is_refused(url: str, remedy: str) -> None:
    with pytest.raises(StoreError, match=re.escape(remedy)):
        path_of(url)
