"""Who a request is from."""

from skipmq.auth.credentials import identify
from skipmq.auth.keys import AccessKey, digest
from skipmq.auth.master import Credentials, Encrypted, MasterKeys, new_credentials
from skipmq.auth.sigv4 import verify

__all__ = [
    "AccessKey",
    "Credentials",
    "Encrypted",
    "MasterKeys",
    "digest",
    "identify",
    "new_credentials",
    "verify",
]
