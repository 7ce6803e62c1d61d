"""The commands on access keys."""

import json
import subprocess
from base64 import b64encode
from typing import Any

from support.http import SKIPMQ, environment

ACCOUNT = "123456789012"
MASTER_KEY = b64encode(b"a master key of exactly 32 bytes").decode()


class Keys:
    """Runs them on a database, given by its owner's URL."""

    def __init__(self, url: str, master_key: str = MASTER_KEY) -> None:
        self.url = url
        self.master_key = master_key

    def run(self, *words: str) -> Any:
        done = subprocess.run(
            [*SKIPMQ, "keys", *words, "--json"],
            env=environment({"database_url": self.url, "master_key": self.master_key}),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
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
