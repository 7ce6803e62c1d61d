"""Each command of `skipmq`, with plausible arguments."""

from pathlib import Path

# Of a router on which no server listens; it is never shown.
PASSWORD = "Pl4ntedPassw0rd"
NO_ROUTER = f"postgresql://owner:{PASSWORD}@127.0.0.1:1/router"


def commands(place: Path) -> dict[str, list[str]]:
    """Return plausible arguments for every command."""
    policy = place / "policy.json"
    policy.write_text('{"Version": "2012-10-17", "Statement": []}')
    queues = place / "queues.toml"
    queues.write_text("[queues.orders]\n")
    lake, key = str(place / "lake"), "AKIAIOSFODNN7EXAMPLE"
    where = ["--where", "queue = 'orders'"]
    return {
        "serve": ["--port", "1", "--insecure"],
        **{each: [] for each in ("migrate", "config", "doctor", "trouble", "top", "audit")},
        **{each: [] for each in ("sessions", "nodes", "tasks", "runbook")},
        "import": [str(queues)],
        "psql": ["-Atc", "select 1"],
        "work": ["json:loads", "--once"],
        "queue create": ["orders"],
        "queue list": [],
        "queue show": ["orders"],
        "queue peek": ["empty"],
        "queue search": ["orders", "--body", "tea"],
        "queue consumers": ["orders"],
        "queue groups": ["orders.fifo"],
        "queue release": ["orders", "00000000-0000-0000-0000-000000000000"],
        "queue timeline": ["orders", "00000000-0000-0000-0000-000000000000"],
        "queue redrive": ["orders", "--yes"],
        "queue pause": ["nowhere"],
        "queue resume": ["orders"],
        "queue move": ["empty", "orders", "--body", "tea"],
        "queue copy": ["empty", "orders"],
        "queue delete-matching": ["empty", "--body", "tea", "--yes"],
        "queue tasks": ["empty"],
        "queue send": ["orders", "tea", "-a", "kind=String:green"],
        "queue receive": ["orders", "--delete"],
        "queue stats": ["orders"],
        "queue tail": ["nowhere"],
        "queue set": ["orders", "DelaySeconds=0"],
        "queue tag": ["orders", "team=shop"],
        "queue purge": ["orders", "--yes"],
        "queue delete": ["nowhere", "--yes"],
        "queue cancel": ["orders", "00000000-0000-0000-0000-000000000000"],
        "queue reschedule": ["orders", "00000000-0000-0000-0000-000000000000", "--in", "60"],
        "schedule create": ["nightly", "30 2 * * *", "--queue", "orders", "--body", "tea"],
        "schedule list": [],
        **{
            f"schedule {each}": ["nightly"] for each in ("show", "pause", "resume", "run", "delete")
        },
        "topic create": ["paid"],
        "topic subscribe": ["paid", "orders"],
        "topic unsubscribe": ["paid", "orders"],
        "topic publish": ["paid", "tea"],
        "topic list": [],
        **{f"topic {each}": ["paid"] for each in ("show", "delete")},
        "keys create": ["--policy", str(place / "secret")],
        "keys list": [],
        "keys permit": [key, "--role", "reader"],
        **{f"keys {each}": [key] for each in ("disable", "enable", "revoke", "rotate", "session")},
        "keys rotate-master": [],
        "keys rotate-receipts": [],
        "sql grant": ["application", "--send", "orders"],
        "sql list": [],
        "sql revoke": ["application"],
        "partitions init": ["--router", NO_ROUTER, "--partition", NO_ROUTER],
        "partitions add": ["--router", NO_ROUTER, "--partition", NO_ROUTER],
        "partitions rebalance-plan": ["--router", NO_ROUTER],
        "partitions rebalance": ["--router", NO_ROUTER],
        "partitions list": ["--router", NO_ROUTER],
        "partitions doctor": ["--router", NO_ROUTER],
        "analytics export": ["--lake", lake],
        "analytics verify": ["--lake", lake],
        "analytics pipeline": ["--lake", lake, "--output", str(place / "tables")],
        "analytics report": ["--output", str(place / "report")],
        "analytics bodies": ["orders", "--lake", lake, "--output", str(place / "bodies.parquet")],
        "analytics advise": ["--apply", "--yes"],
        "analytics replay": ["--to", "orders", *where, "--dry-run"],
        "analytics forget": [*where, "--dry-run"],
        "analytics reconcile": [],
    }
