"""TLS on both doors: pairs that a client would refuse, and renewal while the collector runs."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from collector.receive.certificates import BadCertificate, Certificates, check, renewing
from collector.settings import SettingsError, load
from tests.conftest import RunningCollector, misstep, wait_until
from tests.doors import spans

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def pair(folder: Path, name: str, *, days: float = 30, since: float = -1, password: bytes = b"") -> tuple[Path, Path]:
    """A certificate for localhost that it signs itself, and its key, as `c.pem` and `k.pem`."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder(called, called, key.public_key(), x509.random_serial_number())
        .not_valid_before(now + timedelta(days=since))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(exist_ok=True)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    hidden = serialization.BestAvailableEncryption(password) if password else plain
    for place, content in (
        ("c.pem", certificate.public_bytes(pem)),
        ("k.pem", key.private_bytes(pem, serialization.PrivateFormat.PKCS8, hidden)),
    ):
        (folder / f"{place}.new").write_bytes(content)
        (folder / f"{place}.new").replace(folder / place)
    return folder / "c.pem", folder / "k.pem"


def test_what_a_client_would_refuse_is_one_line(tmp_path: Path) -> None:
    good, other = pair(tmp_path / "a", "a"), pair(tmp_path / "b", "b")
    ends = check(*good)
    assert abs(ends - (datetime.now(UTC) + timedelta(days=30)).timestamp()) < 60
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    wrong = [
        (pair(tmp_path / "c", "c", days=-1, since=-9), "certificate has expired"),
        (pair(tmp_path / "d", "d", since=5), "certificate is not yet valid"),
        (pair(tmp_path / "e", "e", password=b"secret"), "k.pem has a password"),
        ((good[0], other[1]), "they do not belong together"),
        ((good[1], good[0]), "no PEM pair"),
        ((empty, good[1]), "no PEM pair"),
        ((tmp_path / "none.pem", good[1]), "none.pem cannot be read: No such file"),
        ((good[0], tmp_path), "cannot be read: Is a directory"),
    ]
    for (certificate, key), said in wrong:
        with pytest.raises(BadCertificate) as refused:
            check(certificate, key)
        assert said in str(refused.value)
        assert "\n" not in str(refused.value)
        assert "secret" not in str(refused.value)


def test_one_half_of_a_pair_is_a_mistake() -> None:
    with pytest.raises(SettingsError, match="set both tls_cert and tls_key"):
        load({}, {"MISSTEP_TLS_CERT": "/c.pem"}, Path("none.toml"))


def test_a_pair_that_cannot_be_used_keeps_a_collector_from_starting(tmp_path: Path) -> None:
    certificate, key = pair(tmp_path, "old", days=-1, since=-9)
    ended = misstep("collector", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", cwd=tmp_path,
                    settings={"TLS_CERT": str(certificate), "TLS_KEY": str(key)})  # fmt: skip
    assert ended.returncode == 2
    said = f"the certificate in {certificate} with the key in {key}: certificate has expired; put a new pair there"
    assert ended.stderr.splitlines() == [f"misstep: {said}"]


def shown(port: int) -> str:
    """The name in the certificate that a port shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain, context.wrap_socket(plain) as hidden:
        found = x509.load_der_x509_certificate(hidden.getpeercert(binary_form=True) or b"")
    return found.subject.rfc4514_string()


def test_both_doors_show_a_renewed_certificate_without_a_restart(
    start_collector: Callable[..., RunningCollector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tls"
    certificate, key = pair(folder, "first")
    monkeypatch.setattr(RunningCollector, "_ready", lambda running: _secure(running, certificate))
    running = start_collector(TLS_CERT=str(certificate), TLS_KEY=str(key))
    ports = [int(place.rpartition(":")[2]) for place in (running.url, running.grpc)]
    assert [shown(port) for port in ports] == ["CN=first", "CN=first"]
    with pytest.raises(httpx.TransportError):
        httpx.get(running.url + "/healthz", timeout=5)

    trusted = ssl.create_default_context(cafile=str(certificate))
    secure, kept = running.url.replace("http:", "https:"), httpx.Limits(keepalive_expiry=None)
    with httpx.Client(base_url=secure, verify=trusted, limits=kept) as client:
        sent = client.post("/v1/traces", content=spans({"name": "a"}), headers={"content-type": "application/json"})
        assert sent.status_code == 200
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        with grpc.secure_channel(running.grpc, credentials) as channel:
            call = channel.unary_unary(EXPORT)  # type: ignore[var-annotated]
            assert call(b"") == b""
        pair(folder, "second")
        wait_until(lambda: [shown(port) for port in ports] == ["CN=second", "CN=second"])
        assert client.get("/healthz").status_code == 200, "connections outlast a renewal"
    pair(folder, "third", days=-1, since=-9)
    wait_until(lambda: "certificate has expired" in running.logged())
    assert [shown(port) for port in ports] == ["CN=second", "CN=second"]


def test_a_server_that_does_not_take_a_pair_gets_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.receive.certificates.LOOK_S", 0.01)
    certificates = Certificates(*pair(tmp_path, "first"))
    taken: list[str] = []

    def renew(_: Certificates) -> None:
        taken.append(certificates.pem[1].decode())
        if len(taken) == 1:
            raise ssl.SSLError("the files have changed since they were tried")

    async def story() -> None:
        task = asyncio.create_task(renewing(certificates, renew))
        for number, name in enumerate(("second", "third"), 1):
            pair(tmp_path, name)
            async with asyncio.timeout(10):
                while len(taken) < number:
                    assert not task.done()
                    await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(story())
    assert len(set(taken)) == 2


def _secure(running: RunningCollector, certificate: Path) -> bool:
    context = ssl.create_default_context(cafile=str(certificate))
    try:
        return httpx.get(running.url.replace("http:", "https:") + "/readyz", verify=context, timeout=5).is_success
    except httpx.TransportError:
        return False
