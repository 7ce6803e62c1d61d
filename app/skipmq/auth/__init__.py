"""Who a request is from."""

from skipmq.auth.credentials import identify

__all__ = ["identify"]
