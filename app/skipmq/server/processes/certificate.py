"""The TLS certificate of a node: loading, validation and renewal."""

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

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

from skipmq.config.settings import Settings
from skipmq.telemetry.logs import log

# Automatic renewal happens earlier, so a certificate this close to its expiry was overlooked.
EXPIRY_WARNING = timedelta(days=14)
# Seconds between two polls of the files.
INTERVAL = 2.0
# Algorithms that all current clients verify.
_CURVES = (ec.SECP256R1, ec.SECP384R1)
_RSA_BITS = range(2048, 4097)


class CertificateError(Exception):
    """The certificate cannot be used; the message contains the remedy."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate chain with its private key, as PEM, and its validity period.

    `client_ca` has the CA certificates for client certificates, and is empty if none are required.
    """

    pem: bytes = field(repr=False)
    client_ca: bytes = field(repr=False)
    begins: datetime
    ends: datetime

    def check_validity(self) -> str:
        """Describe the expiry; raise CertificateError if invalid or within EXPIRY_WARNING of it."""
        now = datetime.now(UTC)  # noqa: TID251 - clients verify by the system clock, too.
        if self.begins > now:
            raise CertificateError(f"the certificate is not valid before {_date(self.begins)}")
        if self.ends < now:
            raise CertificateError(f"the certificate expired on {_date(self.ends)}: renew it")
        if self.ends < now + EXPIRY_WARNING:
            raise CertificateError(f"the certificate expires on {_date(self.ends)}: renew it")
        return f"valid until {_date(self.ends)}"


class StagedFiles(NamedTuple):
    """The files of the certificate with its key, and of the client CA, that workers read."""

    own: Path
    client_ca: Path | None


class _Contents(NamedTuple):
    """The contents of the files; a str is the reason why a file cannot be read."""

    certificate: bytes | str
    key: bytes | str
    client_ca: bytes | str


def read(settings: Settings) -> Certificate | None:
    """Load the certificate that the settings name; return None if they name none.

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
    """Write a validated certificate into a private folder, from which workers read it.

    The operator's files may be invalid when a worker has to be restarted.
    """
    own = _write(folder / "certificate.pem", certificate.pem)
    if not certificate.client_ca:
        return StagedFiles(own, None)
    return StagedFiles(own, _write(folder / "client_ca.pem", certificate.client_ca))


def context(files: StagedFiles) -> ssl.SSLContext:
    """Return the server's SSL context for the certificate in these files."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols(["http/1.1"])
    made.load_cert_chain(files.own)
    if files.client_ca is not None:
        made.load_verify_locations(files.client_ca)
        made.verify_mode = ssl.CERT_REQUIRED
    return made


def ends(files: StagedFiles) -> float:
    """Return the expiry of the certificate in these files, in seconds since 1970."""
    chain = x509.load_pem_x509_certificates(files.own.read_bytes())
    return chain[0].not_valid_after_utc.timestamp()


class Watch:
    """Detects renewed certificates in the operator's files and stages them in a folder."""

    def __init__(self, settings: Settings, used: Certificate, folder: Path) -> None:
        self._settings, self._used, self._folder = settings, used, folder
        self._checked: _Contents | None = None
        self._previous: _Contents | None = None

    def poll(self) -> bool:
        """Report whether the certificate was replaced; call this every INTERVAL seconds.

        The files are written one after the other, so their contents must be the same in two polls.
        An invalid certificate is logged and the present one stays in use.
        """
        contents = _contents(self._settings)
        is_unchanged, self._previous = contents == self._previous, contents
        if contents == self._checked or not is_unchanged:
            return False
        try:
            certificate = _parsed(self._settings, contents)
        except CertificateError as error:
            log.warning("keeping the old certificate: the new one is invalid", error=str(error))
            self._checked = contents
            return False
        if certificate == self._used:
            self._checked = contents
            return False
        try:
            stage(certificate, self._folder)
        except OSError as error:  # The next poll retries.
            log.warning("the new certificate cannot be staged", error=str(error))
            return False
        self._checked, self._used = contents, certificate
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
    chain = _certificates(settings.tls_certificate, contents.certificate)
    key = _key(settings.tls_key, contents.key)
    clients = settings.tls_client_ca
    trusted = _certificates(clients, contents.client_ca) if clients else []
    first = chain[0]
    if first.version is not x509.Version.v3:
        raise CertificateError(
            f"{settings.tls_certificate}: a certificate of version 1 has no subjectAltName: create"
            " one of version 3 that has it"
        )
    if first.public_key() != key.public_key():
        raise CertificateError(
            f"{settings.tls_key}: this is not the key of the first certificate in"
            f" {settings.tls_certificate}: name the files of one pair"
        )
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Certificate(
        key_pem + _pem(chain), _pem(trusted), first.not_valid_before_utc, first.not_valid_after_utc
    )


def _certificates(path: str, content: bytes | str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(_readable(content))
    except ValueError as error:
        raise CertificateError(f"{path}: not a certificate in PEM format") from error


def _key(path: str, content: bytes | str) -> PrivateKeyTypes:
    try:
        key = load_pem_private_key(_readable(content), password=None)
    except TypeError as error:
        raise CertificateError(
            f"{path}: the key is encrypted: decrypt it with `openssl pkey -in {path}`"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"{path}: not a private key in PEM format") from error
    is_supported = (
        isinstance(key, ed25519.Ed25519PrivateKey)
        or (isinstance(key, rsa.RSAPrivateKey) and key.key_size in _RSA_BITS)
        or (isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, _CURVES))
    )
    if not is_supported:
        raise CertificateError(
            f"{path}: unsupported type of key: create one for ECDSA on P-256 or P-384, Ed25519, or"
            " RSA of 2048 to 4096 bits"
        )
    return key


def _readable(content: bytes | str) -> bytes:
    if isinstance(content, str):
        raise CertificateError(content)
    return content


def _pem(certificates: list[x509.Certificate]) -> bytes:
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def _date(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _write(file: Path, content: bytes) -> Path:
    """Replace a file atomically; only this account can read it."""
    temporary = file.with_suffix(".new")
    temporary.touch(mode=0o600)
    temporary.write_bytes(content)
    return temporary.replace(file)
