"""The files that an operator gives a node for TLS."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509

from local_cluster.certificates import Authority, Certificate
from support.http import NodeProcess


@dataclass
class Files:
    """What an operator gives a node, and an authority that signs more."""

    folder: Path
    authority: Authority

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def settings(self) -> dict[str, str]:
        pair = ("certificate.pem", "key.pem")
        own, key = (str(self.folder / name) for name in pair)
        return {"tls_certificate": own, "tls_key": key}

    def put(self, certificate: Certificate) -> int:
        """Write a certificate and its key where the node finds them; return its number."""
        own, key = (Path(name) for name in self.settings.values())
        certificate.write(own, key)
        return x509.load_pem_x509_certificate(certificate.pem).serial_number

    def issue(self, **validity: float) -> Certificate:
        return self.authority.issue("localhost", "127.0.0.1", **validity)

    def cut(self) -> None:
        """Leave half of the certificate, as a look in the middle of a write would find it."""
        own = Path(self.settings["tls_certificate"])
        own.write_bytes(own.read_bytes()[:200])

    def mix(self) -> None:
        """Put the key of another certificate."""
        Path(self.settings["tls_key"]).write_bytes(self.issue().key)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca)

    @contextmanager
    def node(self, url: str, **settings: Any) -> Iterator[NodeProcess]:
        """Give a node with these files."""
        with NodeProcess(
            database_url=url, context=self.context(), **self.settings, **settings
        ) as node:
            yield node.ready()


def shown(port: int, context: ssl.SSLContext) -> int:
    """Return the number of the certificate that a new connection gets."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
        context.wrap_socket(connection, server_hostname="localhost") as secure,
    ):
        found = secure.getpeercert(binary_form=True)
    assert found
    return x509.load_der_x509_certificate(found).serial_number
