"""The commands on access keys."""

import json
from base64 import b64encode
from typing import Any

from support.commands import invoke
from support.http import environment

ACCOUNT = "123456789012"
MASTER_KEY = b64encode(b"a master key of exactly 32 bytes").decode()


class Keys:
    """Runs them on a database, given by its owner's URL."""

    def __init__(self, url: str, master_key: str = MASTER_KEY) -> None:
        self.url = url
        self.master_key = master_key

    def run(self, *words: str) -> Any:
        settings = environment({"database_url": self.url, "master_key": self.master_key})
        done = invoke(("keys", *words, "--json"), settings)
        assert done.code == 0, done.stderr
        return json.loads(done.stdout)

    def create(self, account: str = ACCOUNT, *options: str) -> dict[str, str]:
        """Return a new key, as `client` wants it."""
        made = self.run("create", "--account", account, *options)
        return {"key": made["access_key_id"], "secret": made["secret_access_key"]}

    def session(self, key: str) -> dict[str, str]:
        made = self.run("session", key)
        assert made["access_key_id"].startswith("ASIA")
        return {
            "key": made["access_key_id"],
            "secret": made["secret_access_key"],
            "token": made["session_token"],
        }
