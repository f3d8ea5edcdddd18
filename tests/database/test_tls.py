"""TLS: what the URL asks for is what happens.

The embedded server's programs are built without OpenSSL, so here TLS ends just before a real
server, as it does at a pooler; PostgreSQL's own is tried where its programs are installed.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database, External
from codebase_mcp.errors import DatabaseUnavailable
from codebase_mcp.settings.loading import Settings

from .conftest import READY, PlainServer, service_user, start_logging

pytestmark = pytest.mark.anyio

x509 = pytest.importorskip("cryptography.x509")
from cryptography.hazmat.primitives import hashes, serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402

SSL_REQUEST = struct.pack("!ii", 8, 80877103)


class Authority:
    """Makes certificates, and says who may be trusted."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = name
        self.certificate, _ = self.issue(name, is_authority=True)

    def issue(self, name: str, *, is_authority: bool = False) -> tuple[Path, Path]:
        """Files with a certificate for this name, and its key."""
        key = self._key if is_authority else ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_called(name))
            .issuer_name(_called(self._name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        files = self._folder / f"{self._name}-{name}.crt", self._folder / f"{self._name}-{name}.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        files[1].chmod(0o600)
        return files


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


@dataclass(frozen=True, slots=True)
class SecureServer:
    """Where TLS is spoken, and the files that a client may need."""

    port: int
    authority: Path
    stranger: Path
    certificate: Path
    key: Path

    def url(self, database: str, **options: object) -> str:
        listed = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://postgres@localhost:{self.port}/{database}?{listed}"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "our-authority")


@pytest.fixture
async def secure_server(
    anyio_backend: str, authority: Authority, plain_server: PlainServer, tmp_path: Path
) -> AsyncIterator[SecureServer]:
    """TLS before the plain server; who comes with a certificate must have it from the authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.load_cert_chain(*authority.issue("localhost"))
    context.verify_mode = ssl.CERT_REQUIRED
    address = str(plain_server.folder / ".s.PGSQL.5432")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            assert await reader.readexactly(8) == SSL_REQUEST
            writer.write(b"S")
            await writer.drain()
            await writer.start_tls(context)
            there, back = await asyncio.open_unix_connection(address)
            await asyncio.gather(pump(reader, back), pump(there, writer))

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(serve(reader, writer)))

    certificate, key = authority.issue("postgres")
    stranger = Authority(tmp_path, "stranger").certificate
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield SecureServer(port, authority.certificate, stranger, certificate, key)
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Hand on what comes until its end, and then end too."""
    try:
        while piece := await source.read(1 << 16):
            target.write(piece)
            await target.drain()
    finally:
        target.close()


async def test_the_product_works_over_tls_with_both_sides_checked(
    secure_server: SecureServer,
    settings: Settings,
    database_name: str,
    make_repo: Callable[..., Path],
) -> None:
    url = secure_server.url(
        database_name,
        sslmode="verify-full",
        sslrootcert=secure_server.authority,
        sslcert=secure_server.certificate,
        sslkey=secure_server.key,
    )
    async with await App.open(replace(settings, database_url=url)) as app:
        await app.index(make_repo(), "secure")
        assert (await app.search("authenticate", "secure")).answer.hits


@pytest.mark.parametrize(
    "wrong", [{"sslrootcert": "stranger"}, {"sslcert": None, "sslkey": None}], ids=str
)
async def test_who_cannot_be_checked_is_not_talked_to(
    secure_server: SecureServer, database_name: str, wrong: dict[str, str | None]
) -> None:
    options: dict[str, object] = {
        "sslmode": "verify-full",
        "sslrootcert": secure_server.authority,
        "sslcert": secure_server.certificate,
        "sslkey": secure_server.key,
    }
    for name, value in wrong.items():
        options[name] = getattr(secure_server, value) if value else ""
    database = await Database.open(External(secure_server.url(database_name, **options)))
    with pytest.raises(DatabaseUnavailable):
        await database.check()
    await database.close()


async def test_tls_that_a_server_does_not_speak_is_not_gone_without(
    anyio_backend: str, plain_server: PlainServer
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(b"N")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = f"postgresql://postgres@localhost:{port}/postgres?sslmode=require"
    database = await Database.open(External(url))
    with pytest.raises(DatabaseUnavailable):
        await database.check()
    await database.close()
    server.close()


def installed_server() -> Path | None:
    """The programs of a PostgreSQL that is installed beside the embedded one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


@pytest.fixture
def installed(tmp_path: Path, authority: Authority, scratch: Path) -> Iterator[str]:
    """A PostgreSQL with its own TLS, asking for certificates; the URL to it, less options."""
    programs = installed_server()
    if programs is None:
        pytest.skip("no PostgreSQL with TLS is installed here")
    folder = scratch / f"cbm-tls-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        for name, file in zip(
            ("server.crt", "server.key"), authority.issue("localhost"), strict=True
        ):
            shutil.copy(file, folder / name)
        shutil.copy(authority.certificate, folder / "root.crt")
        for path in (folder, *folder.iterdir()):
            if service_user() is not None:
                shutil.chown(path, service_user())
        (folder / "server.key").chmod(0o600)
        yield from _running(programs, folder)
    finally:
        shutil.rmtree(folder)


def _running(programs: Path, folder: Path) -> Iterator[str]:
    user = service_user()
    data = folder / "data"
    initdb = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]
    subprocess.run(initdb, check=True, capture_output=True, user=user, cwd=folder)
    rules = "hostssl all all 127.0.0.1/32 cert\n"
    (data / "pg_hba.conf").write_text(rules)
    settings = {
        "ssl": "on", "ssl_cert_file": folder / "server.crt", "ssl_key_file": folder / "server.key",
        "ssl_ca_file": folder / "root.crt", "unix_socket_directories": folder, "port": "0",
        "listen_addresses": "127.0.0.1", "fsync": "off",
    }  # fmt: skip
    port = free_port()
    settings["port"] = str(port)
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    process = start_logging([programs / "postgres", "-D", data, *options], folder, READY)
    try:
        yield f"postgresql://postgres@localhost:{port}/postgres"
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_postgresqls_own_tls_is_spoken_as_the_url_says(
    anyio_backend: str, installed: str, authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.issue("postgres")
    trusted = f"sslmode=verify-full&sslrootcert={authority.certificate}"
    ours = f"{installed}?{trusted}&sslcert={certificate}&sslkey={key}"
    stranger = Authority(tmp_path, "stranger").certificate
    database = await Database.open(External(ours))
    with suppress(DatabaseUnavailable):  # it may well be without pgvector: then it says so
        await database.check()
    async with database.unmigrated("pg_catalog", readonly=True) as transaction:
        query = "SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert await transaction.fetch_one(query) == ("/CN=postgres",)
    await database.close()
    for url in (
        f"{installed}?{trusted}&sslcert=&sslkey=",
        ours.replace(str(authority.certificate), str(stranger)),
        f"{installed}?sslmode=disable",
    ):
        database = await Database.open(External(url))
        with pytest.raises(DatabaseUnavailable, match=r"unavailable$"):
            await database.check()
        await database.close()
