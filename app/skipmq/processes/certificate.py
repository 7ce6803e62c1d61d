"""The certificate of a node: read, checked, and read again when its files change."""

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from skipmq.settings import Settings

log = structlog.get_logger()

# Renewals come weeks before the end: a certificate that ends so soon was forgotten.
SOON = timedelta(days=14)
# Seconds between two looks at the files.
INTERVAL = 2.0
# What every client of the last years verifies.
_CURVES = (ec.SECP256R1, ec.SECP384R1)
_RSA_BITS = range(2048, 4097)


class CertificateError(Exception):
    """The certificate cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its chain and the key that fits it, as PEM, and when it is valid.

    `client_ca` holds the certificates that vouch for clients; it is empty when clients need none.
    """

    pem: bytes = field(repr=False)
    client_ca: bytes = field(repr=False)
    begins: datetime
    ends: datetime

    def check_validity(self) -> str:
        """Say until when it is valid; raise CertificateError when it is not or will soon not be."""
        now = datetime.now(UTC)  # noqa: TID251 - whoever connects goes by a clock of this kind.
        if self.begins > now:
            raise CertificateError(f"the certificate is not valid before {_date(self.begins)}")
        if self.ends < now:
            raise CertificateError(f"the certificate expired on {_date(self.ends)}: renew it")
        if self.ends < now + SOON:
            raise CertificateError(f"the certificate expires on {_date(self.ends)}: renew it")
        return f"valid until {_date(self.ends)}"


class StagedFiles(NamedTuple):
    """Where workers read a certificate and its key, and the certificates that vouch for clients."""

    own: Path
    client_ca: Path | None


class _Contents(NamedTuple):
    """What is in the files; text instead of bytes says why one cannot be read."""

    certificate: bytes | str
    key: bytes | str
    client_ca: bytes | str


def read(settings: Settings) -> Certificate | None:
    """Return the certificate that the settings name, or None where they name none.

    Raises CertificateError.
    """
    if not settings.tls_certificate:
        if settings.tls_key or settings.tls_client_ca:
            raise CertificateError(
                "SKIPMQ_TLS_KEY and SKIPMQ_TLS_CLIENT_CA need a certificate: name its file in"
                " SKIPMQ_TLS_CERTIFICATE"
            )
        return None
    if not settings.tls_key:
        raise CertificateError(
            "SKIPMQ_TLS_CERTIFICATE needs the key: name its file in SKIPMQ_TLS_KEY"
        )
    return _parsed(settings, _contents(settings))


def stage(certificate: Certificate, folder: Path) -> StagedFiles:
    """Write what was checked into a private folder.

    Workers read these: the operator's own may be broken when one has to be started.
    """
    own = _write(folder / "certificate.pem", certificate.pem)
    if not certificate.client_ca:
        return StagedFiles(own, None)
    return StagedFiles(own, _write(folder / "client_ca.pem", certificate.client_ca))


def context(files: StagedFiles) -> ssl.SSLContext:
    """Return a context in which a server shakes hands with the certificate in these files."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols(["http/1.1"])
    made.load_cert_chain(files.own)
    if files.client_ca is not None:
        made.load_verify_locations(files.client_ca)
        made.verify_mode = ssl.CERT_REQUIRED
    return made


def ends(files: StagedFiles) -> float:
    """Return when the certificate in these files ends, in seconds since 1970."""
    chain = x509.load_pem_x509_certificates(files.own.read_bytes())
    return chain[0].not_valid_after_utc.timestamp()


class Watch:
    """Finds the certificates that come into the files, and stages them in a folder."""

    def __init__(self, settings: Settings, used: Certificate, folder: Path) -> None:
        self._settings, self._used, self._folder = settings, used, folder
        self._judged: _Contents | None = None
        self._before: _Contents | None = None

    def look(self) -> bool:
        """Report whether there is another certificate than before; to be called every INTERVAL.

        The files are read when they have stayed the same for two looks: they are written one after
        the other. A certificate that cannot be used is logged, and the one before stays.
        """
        found = _contents(self._settings)
        is_settled, self._before = found == self._before, found
        if found == self._judged or not is_settled:
            return False
        try:
            certificate = _parsed(self._settings, found)
        except CertificateError as error:
            log.warning("the new certificate cannot be used, the old one stays", error=str(error))
            self._judged = found
            return False
        if certificate != self._used:
            try:
                stage(certificate, self._folder)
            except OSError as error:  # The next look tries again.
                log.warning("the new certificate cannot be staged", error=str(error))
                return False
        self._judged = found
        if certificate == self._used:
            return False
        self._used = certificate
        log.info("renewed the certificate", ends=_date(certificate.ends))
        return True


def _contents(settings: Settings) -> _Contents:
    return _Contents(
        _content(settings.tls_certificate),
        _content(settings.tls_key),
        _content(settings.tls_client_ca) if settings.tls_client_ca else b"",
    )


def _content(path: str) -> bytes | str:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"


def _parsed(settings: Settings, contents: _Contents) -> Certificate:
    """Return the certificate that is in the files; raise CertificateError."""
    chain = _certificates(settings.tls_certificate, contents.certificate)
    key = _key(settings.tls_key, contents.key)
    clients = settings.tls_client_ca
    trusted = _certificates(clients, contents.client_ca) if clients else []
    first = chain[0]
    if first.version is not x509.Version.v3:
        raise CertificateError(
            f"{settings.tls_certificate}: a certificate of version 1 names no host: make one of"
            " version 3 with a subjectAltName"
        )
    if first.public_key() != key.public_key():
        raise CertificateError(
            f"{settings.tls_key}: this is not the key of the first certificate in"
            f" {settings.tls_certificate}: name the files of one pair"
        )
    # In one form, whatever the operator's was.
    own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Certificate(
        own + _pem(chain), _pem(trusted), first.not_valid_before_utc, first.not_valid_after_utc
    )


def _certificates(path: str, content: bytes | str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(_known(content))
    except ValueError as error:
        raise CertificateError(f"{path}: there is no certificate as PEM in it") from error


def _key(path: str, content: bytes | str) -> PrivateKeyTypes:
    try:
        key = load_pem_private_key(_known(content), password=None)
    except TypeError as error:
        raise CertificateError(
            f"{path}: the key has a password: `openssl pkey -in {path}` writes it without one"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"{path}: there is no private key as PEM in it") from error
    is_known = (
        isinstance(key, ed25519.Ed25519PrivateKey)
        or (isinstance(key, rsa.RSAPrivateKey) and key.key_size in _RSA_BITS)
        or (isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, _CURVES))
    )
    if not is_known:
        raise CertificateError(
            f"{path}: a key of this kind cannot be used: make one for ECDSA on P-256 or P-384,"
            " Ed25519, or RSA of 2048 to 4096 bits"
        )
    return key


def _known(content: bytes | str) -> bytes:
    if isinstance(content, str):
        raise CertificateError(content)
    return content


def _pem(certificates: list[x509.Certificate]) -> bytes:
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def _date(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _write(file: Path, content: bytes) -> Path:
    """Write a file for this account alone, so that a reader finds the old or the new content."""
    fresh = file.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_bytes(content)
    return fresh.replace(file)
