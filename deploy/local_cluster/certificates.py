"""A cluster's certificate authority, and the certificates that it signs."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, as PEM."""

    pem: bytes
    key: bytes = field(repr=False)

    def write(self, certificate: Path, key: Path) -> None:
        """Write both files, the key readable only by this account; both may be the same file."""
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        if certificate == key:
            key.write_bytes(self.pem + self.key)
        else:
            certificate.write_bytes(self.pem)


class Authority:
    """An authority whose key never leaves this process."""

    def __init__(self, name: str = "a cluster on one machine") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(f"SkipMQ: {name}")
        own = self._key.public_key()
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            self._builder(self._name, own, 0, 365)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
        )
        self._certificate = builder.sign(self._key, SHA256())

    @property
    def pem(self) -> bytes:
        """Return the authority's own certificate."""
        return self._certificate.public_bytes(Encoding.PEM)

    def issue(self, *names: str, begins: float = 0, ends: float = 365) -> Certificate:
        """Return a certificate for server and client authentication, for these names and addresses.

        `begins` and `ends` are in days from now.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        return Certificate(
            self.sign(key.public_key(), *names, begins=begins, ends=ends),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )

    def sign(
        self, key: CertificatePublicKeyTypes, *names: str, begins: float = 0, ends: float = 365
    ) -> bytes:
        """Return a certificate, as PEM, for the public key of another party."""
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            self._builder(_name(names[0]), key, begins, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(map(_general, names)), critical=False)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        )
        return builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)

    def _builder(
        self, subject: x509.Name, key: CertificatePublicKeyTypes, begins: float, ends: float
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)  # noqa: TID251 - others compare it with theirs.
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            # Other machines' clocks may be slightly behind.
            .not_valid_before(now + begins * _DAY - timedelta(minutes=5))
            .not_valid_after(now + ends * _DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(issuer, critical=False)
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def equip(ca: Path, machines: Mapping[str, Sequence[str]]) -> None:
    """Create an authority, and for each machine a folder next to it, as an operator would.

    `machines` has the names and addresses of each. A folder has ca.crt, server.crt, server.key,
    and server.pem with the latter two, which HAProxy requires.
    """
    authority = Authority()
    ca.write_bytes(authority.pem)
    for machine, names in machines.items():
        folder = ca.parent / machine
        folder.mkdir()
        shutil.copy(ca, folder / "ca.crt")
        made = authority.issue(*names)
        made.write(folder / "server.crt", folder / "server.key")
        made.write(folder / "server.pem", folder / "server.pem")
