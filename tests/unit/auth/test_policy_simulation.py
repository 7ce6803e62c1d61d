"""Policies against another evaluator: made-up requests must get the same answers.

The other evaluator is `@cloud-copilot/iam-simulate`, which only tests use. What it does not do is
left to test_policy.py: variables in the name of a queue, of which it takes the colon for the end of
a resource type; networks of no bits, which it matches by shifts of 32 bits; addresses of IPv6 with
conditions on IPv4; and variables that are text, in the first version of the language.
"""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

from skipmq.auth.policy import Access, is_allowed, parse
from support.programs import need, not_here

SIMULATOR = Path(__file__).parent / "simulator"
OWNER, OTHER = "111122223333", "444455556666"
USERS = [
    f"arn:aws:iam::{OWNER}:user/alice",
    f"arn:aws:iam::{OWNER}:user/bob",
    f"arn:aws:iam::{OTHER}:user/carol",
]
ACTIONS = ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteQueue"]
QUEUES = ["orders", "orders-eu", "alice-1"]
CASES, SEED = 1_000, 20261122


class Story(random.Random):
    """Makes requests and policies that have something to do with each other."""

    def some(self, choices: list[Any]) -> Any:
        chosen = self.sample(choices, min(len(choices), self.choice([1, 1, 1, 2])))
        return chosen[0] if len(chosen) == 1 and self.random() < 0.5 else chosen

    def case(self) -> dict[str, Any]:
        user = self.choice(USERS)
        context = {
            "aws:SourceIp": self.choice(["10.0.0.1", "192.0.2.7", "198.51.100.1"]),
            "aws:SecureTransport": self.choice(["true", "false"]),
            "aws:username": user.rpartition("/")[2],
            "aws:PrincipalAccount": user.split(":")[4],
            "aws:PrincipalArn": user,
            "aws:CurrentTime": "2026-11-22T12:00:00Z",
            "aws:EpochTime": "1795348800",
            "aws:UserAgent": self.choice(["Boto3/1.40", "aws-cli/2.0"]),
        }
        return {
            "access": {
                "user": user,
                "action": self.choice(ACTIONS),
                "resource": f"arn:aws:sqs:us-east-1:{OWNER}:{self.choice(QUEUES)}",
                "context": context,
            },
            "owner": OWNER,
            "own": self.policy(shared=False) if self.random() < 0.9 else None,
            "queue": self.policy(shared=True) if self.random() < 0.6 else None,
        }

    def policy(self, *, shared: bool) -> dict[str, Any]:
        statements = [self.statement(shared=shared) for _ in range(self.choice([1, 2, 3]))]
        version = self.choice(["2012-10-17", "2008-10-17"])
        if "${" in json.dumps(statements):
            version = "2012-10-17"
        return {"Version": version, "Statement": statements}

    def statement(self, *, shared: bool) -> dict[str, Any]:
        made: dict[str, Any] = {"Effect": self.choice(["Allow", "Allow", "Deny"])}
        patterns = [*ACTIONS, "sqs:*", "sqs:S*", "*", "sqs:Receive?essage", "SQS:sendmessage"]
        made[self.choice(["Action", "Action", "NotAction"])] = self.some(patterns)
        arn = "arn:aws:sqs:"
        resources = [
            "*",
            f"{arn}*:{OWNER}:orders",
            f"{arn}us-east-1:{OWNER}:orders*",
            f"{arn}*:*:*-*",
            f"{arn}us-?ast-1:*:*",
            f"{arn}eu-west-1:{OWNER}:orders",
        ]
        made[self.choice(["Resource", "Resource", "NotResource"])] = self.some(resources)
        if shared:
            root = f"arn:aws:iam::{OTHER}:root"
            named = {"AWS": self.some([*USERS, OWNER, OTHER, root, "*"])}
            made["Principal"] = self.choice([named, named, named, "*"])
        if self.random() < 0.5:
            made["Condition"] = dict(self.condition() for _ in range(self.choice([1, 1, 2])))
        return made

    def condition(self) -> tuple[str, dict[str, Any]]:
        operators: list[tuple[str, str, list[Any]]] = [
            (f"String{kind}", key, values)
            for kind in ("Equals", "NotEquals", "EqualsIgnoreCase", "NotEqualsIgnoreCase")
            for key, values in (
                ("aws:username", ["alice", "BOB", "carol", "al*", "${aws:UserName}"]),
                ("aws:PrincipalAccount", [OWNER, OTHER]),
                ("aws:SourceAccount", [OWNER]),
            )
        ]
        operators += [
            (kind, "aws:UserAgent", ["Boto3*", "aws-cli/?.0", "*", "${aws:SourceVpc, 'Boto3'}*"])
            for kind in ("StringLike", "StringNotLike")
        ]
        operators += [
            (kind, "aws:SourceIp", ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "128.0.0.0/1"])
            for kind in ("IpAddress", "NotIpAddress")
        ]
        operators += [
            (kind, key, [f"arn:aws:iam::{OWNER}:user/*", USERS[2], "arn:aws:iam::*:user/alice"])
            for kind in ("ArnEquals", "ArnLike", "ArnNotEquals", "ArnNotLike")
            for key in ("aws:PrincipalArn", "aws:SourceArn")
        ]
        operators += [
            (f"{kind}{comparison}", key, values)
            for kind, key, values in (
                ("Date", "aws:CurrentTime", ["2026-11-22T12:00:00Z", "2026-01-01T00:00:00Z"]),
                ("Numeric", "aws:EpochTime", ["1795348800", "1"]),
            )
            for comparison in (
                "Equals", "NotEquals", "LessThan", "LessThanEquals", "GreaterThan",
                "GreaterThanEquals",
            )
        ]  # fmt: skip
        operators += [("Bool", "aws:SecureTransport", ["true", "false"])]
        name, key, values = self.choice(operators)
        if self.random() < 0.2:
            return "Null", {key: self.choice(["true", "false"])}
        return name + self.choice(["", "", "IfExists"]), {key: self.some(values)}


def ours(case: dict[str, Any]) -> bool:
    access = case["access"]
    asked = Access(
        access["action"],
        access["resource"],
        access["user"].split(":")[4],
        access["user"],
        {key.lower(): value for key, value in access["context"].items()},
    )
    own = parse(json.dumps(case["own"] or {"Statement": []}), of_queue=False)
    queue = parse(json.dumps(case["queue"]), of_queue=True) if case["queue"] else None
    return is_allowed(asked, case["owner"], own, queue)


def theirs(cases: list[dict[str, Any]]) -> list[Any]:
    done = subprocess.run(
        ["node", "simulate.js"],
        cwd=SIMULATOR,
        input="\n".join(map(json.dumps, cases)),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_answers_are_those_of_another_evaluator() -> None:
    need("node", "npm")
    if not (SIMULATOR / "node_modules" / ".installed").exists():
        not_here("the other evaluator is not installed: `make clients` installs it")
    story = Story(SEED)
    cases = [story.case() for _ in range(CASES)]

    answers = theirs(cases)

    assert len(answers) == CASES
    assert {*map(str, answers)} <= {"Allowed", "ExplicitlyDenied", "ImplicitlyDenied"}
    found = [(case, answer) for case, answer in zip(cases, answers, strict=True)]
    differing = [
        json.dumps([case, answer]) for case, answer in found if ours(case) != (answer == "Allowed")
    ]
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:5])
    # The story must be worth telling.
    assert CASES / 10 < sum(answer == "Allowed" for answer in answers) < CASES * 4 / 5
