"""Authentication and authorization of requests."""

from skipmq.auth.credentials import identify
from skipmq.auth.keys import AccessKey, Credentials, Encrypted, MasterKeys, digest, new_credentials
from skipmq.auth.policy import Access, is_allowed, parse
from skipmq.auth.rights import ROLES, policy_of, rights_for
from skipmq.auth.sigv4 import verify

__all__ = [
    "ROLES",
    "Access",
    "AccessKey",
    "Credentials",
    "Encrypted",
    "MasterKeys",
    "digest",
    "identify",
    "is_allowed",
    "new_credentials",
    "parse",
    "policy_of",
    "rights_for",
    "verify",
]
