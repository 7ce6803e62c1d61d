"""Who a request is from, and what it may do."""

from skipmq.auth.credentials import identify
from skipmq.auth.keys import AccessKey, digest
from skipmq.auth.master import Credentials, Encrypted, MasterKeys, new_credentials
from skipmq.auth.policy import Access, is_allowed, parse
from skipmq.auth.rights import ROLES, of_role, policy_of
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
    "of_role",
    "parse",
    "policy_of",
    "verify",
]
