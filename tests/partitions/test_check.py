"""`skipmq partitions init` and `doctor` name what is wrong, in a sentence with its remedy."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from skipmq.database import schema
from skipmq.database.router.partition_map import partition_urls
from support import commands
from support.http import environment, free_port
from support.key_commands import MASTER_KEY, Keys
from support.partitions import Partitions, run
from support.postgres import Databases, as_node


def doctor(two: Partitions) -> str:
    given = [word for url in two.urls for word in ("--partition", url)]
    return " ".join(run("doctor", "--router", two.router, *given).output.split())


def test_partitions_that_fit_have_no_problem_and_init_again_changes_nothing(
    two: Partitions,
) -> None:
    before = run("list", "--router", two.router, "--json").output

    again = two.init()

    assert again.exit_code == 0
    assert run("list", "--router", two.router, "--json").output == before
    assert doctor(two) == "the router and its partitions fit"


def test_partitions_are_listed_with_each_of_their_servers(fresh: Partitions) -> None:
    given = conninfo_to_dict(fresh.urls[0])
    host, port = given["host"], given.get("port", "5432")
    both = make_conninfo(fresh.urls[0], host=f"{host},{host}", port=f"{port},{port}")

    assert fresh.init(both, fresh.urls[1]).exit_code == 0

    first, _ = json.loads(run("list", "--router", fresh.router, "--json").output)["partitions"]
    assert first["database"] == f"{host}:{port},{host}:{port}/{given['dbname']}"


def test_more_partitions_than_queue_numbers_have_room_for_are_refused(two: Partitions) -> None:
    refused = two.init(*two.urls, *two.urls[:1] * 63)

    assert "65 partitions: use 1 to 64" in str(refused.exception)


def test_partitions_in_another_order_are_refused(two: Partitions) -> None:
    refused = two.init(*reversed(two.urls))

    assert "is partition 1 of 2 of another map" in str(refused.exception)


def test_partition_of_another_map_is_refused(
    two: Partitions, embedded_databases: Databases, router_server: Databases
) -> None:
    other = Partitions.copied(embedded_databases, router_server, 2)
    with psycopg.connect(other.urls[1], autocommit=True) as connection:
        connection.execute("update skipmq.cluster set map_id = gen_random_uuid()")

    refused = two.init(two.urls[0], other.urls[1])

    assert "of another map: use an empty database" in str(refused.exception)
    other.drop()


def test_queues_whose_numbers_belong_elsewhere_are_refused_and_found(
    fresh: Partitions, embedded_databases: Databases
) -> None:
    database = embedded_databases.migrated()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("select skipmq.create_queue('one')")
        connection.execute("select skipmq.create_queue('two')")

    refused = fresh.init(fresh.urls[0], database)
    with psycopg.connect(fresh.urls[1], autocommit=True) as connection:
        connection.execute("update skipmq.cluster set partition = 0")
        connection.execute("select skipmq.create_queue('astray')")
        connection.execute("update skipmq.cluster set partition = 1")

    assert "has queues whose numbers belong to another partition" in str(refused.exception)
    assert "partition 1 has 1 queues whose numbers belong elsewhere" in doctor(fresh)
    embedded_databases.drop(database)


def test_server_without_the_extension_is_refused(
    two: Partitions, embedded_databases: Databases
) -> None:
    database = embedded_databases.empty()

    given = [word for url in two.urls for word in ("--partition", url)]
    refused = run("init", "--router", database, *given)

    assert "has no extension plproxy: install its package" in str(refused.exception)
    embedded_databases.drop(database)


def test_partition_is_no_router(two: Partitions) -> None:
    refused = run("doctor", "--router", two.urls[0])

    assert "is a partition: give a router's address" in str(refused.exception)


def test_restored_partition_is_found_by_its_receipt_keys(fresh: Partitions) -> None:
    with psycopg.connect(fresh.urls[1], autocommit=True) as connection:
        connection.execute("select skipmq.rotate_receipt_key()")

    assert "different keys for receipt handles" in doctor(fresh)
    commands.run("partitions", "doctor", "--router", fresh.router, code=1)
    assert fresh.init().exit_code == 0
    assert "fit" in doctor(fresh)


def test_access_keys_that_differ_are_found_and_are_those_of_the_first_again(
    fresh: Partitions, embedded_databases: Databases
) -> None:
    keys = Keys(fresh.router)
    key, revoked = keys.create()["key"], keys.create()["key"]
    keys.run("revoke", revoked, "--yes")
    disable = "update skipmq.access_key set enabled = false where key_id = %s"
    with psycopg.connect(fresh.urls[1], autocommit=True) as second:
        second.execute(disable, (key,))

    differing = doctor(fresh)
    again = fresh.init()
    grown = fresh.add(embedded_databases)

    assert "partitions have different access keys" in differing
    assert (again.exit_code, grown.exit_code) == (0, 0)
    assert "fit" in doctor(fresh)
    for url in fresh.urls:
        with psycopg.connect(url) as partition:
            query = "select key_id, enabled from skipmq.access_key"
            assert partition.execute(query).fetchall() == [(key, True)]
            named = partition.execute("select key_id from skipmq.revoked_key").fetchall()
            assert named == [(revoked,)]


def test_key_that_one_partition_has_no_more_is_revoked_in_the_other(two: Partitions) -> None:
    key = Keys(two.router).create()["key"]
    with psycopg.connect(two.urls[0], autocommit=True) as first:
        first.execute("select skipmq.revoke_access_key(%s)", (key,))
    settings = {"database_url": two.router, "master_key": MASTER_KEY}

    said = commands.run("keys", "revoke", key, given="y\n", **settings)

    assert f"access key {key} is revoked" in said
    with psycopg.connect(two.urls[1]) as second:
        assert second.execute("select from skipmq.access_key").fetchall() == []
    again = commands.run("keys", "revoke", key, "--yes", code=1, **settings)
    assert f"access key {key} does not exist" in again


def test_node_refuses_to_start_on_partitions_of_another_map(fresh: Partitions) -> None:
    with psycopg.connect(fresh.urls[1], autocommit=True) as connection:
        connection.execute("update skipmq.cluster set map_id = gen_random_uuid()")

    with pytest.raises(schema.SchemaError, match="partition 1 of the router is another map"):
        schema.check_for_node(as_node(fresh.router))
    assert "partition 1 of the router says that it is another map" in doctor(fresh)


def test_node_refuses_to_start_on_exchanged_partitions(fresh: Partitions) -> None:
    with psycopg.connect(fresh.urls[1], autocommit=True) as connection:
        connection.execute("update skipmq.cluster set partition = 0")

    with pytest.raises(schema.SchemaError, match="partition 1 of the router is partition 0"):
        schema.check_for_node(as_node(fresh.router))


def test_router_with_fewer_partitions_than_there_are_is_found(
    fresh: Partitions, embedded_databases: Databases, router_server: Databases
) -> None:
    other = fresh.another_router(router_server)
    assert fresh.add(embedded_databases).exit_code == 0

    found = " ".join(run("doctor", "--router", other).output.split())
    again = run("add", "--router", other, "--partition", fresh.urls[2])

    assert "partition 0 is one of 3 and the router's map has 2" in found
    assert again.exit_code == 0
    assert "fit" in run("doctor", "--router", other).output
    router_server.drop(other)


def test_partition_restored_from_an_old_backup_is_found(fresh: Partitions) -> None:
    """What a backup from before the create, and before a rebalance, would bring back."""
    name, moved = fresh.name_at(0), fresh.name_at(1)
    with psycopg.connect(as_node(fresh.router), autocommit=True) as router:
        for each in (name, moved):
            router.execute("select skipmq.create_queue(%s)", (each,))
    key = ("000000000000", "us-east-1")
    with psycopg.connect(fresh.urls[0], autocommit=True) as first:
        first.execute("select skipmq.create_queue(%s)", (moved,))
        first.execute("insert into skipmq.queue_place values (%s, %s, 'never', 1)", key)
    with psycopg.connect(fresh.urls[1], autocommit=True) as second:
        second.execute("insert into skipmq.queue_place values (%s, %s, %s, 1)", (*key, "astray"))

    found = doctor(fresh)

    assert f"several partitions have 1 queues ({moved})" in found
    assert "partition 1 never had 2 queues (astray, never)" in found


def test_rebalance_records_places_that_a_home_has_forgotten(fresh: Partitions) -> None:
    dead, name = fresh.name_at(1), fresh.name_at(0)
    arn = f"arn:aws:sqs:us-east-1:000000000000:{dead}"
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 3}}'
    with psycopg.connect(as_node(fresh.router), autocommit=True) as router:
        router.execute("select skipmq.create_queue(%s)", (dead,))
        attributes = json.dumps({"RedrivePolicy": policy})
        router.execute("select skipmq.create_queue(%s, %s)", (name, attributes))
    with psycopg.connect(fresh.urls[0], autocommit=True) as first:
        first.execute("delete from skipmq.queue_place")

    found = doctor(fresh)
    done = run("rebalance", "--router", fresh.router)

    assert f"the homes of 1 queues ({name}) do not know where they are" in found
    assert done.exit_code == 0
    assert "fit" in doctor(fresh)


@contextmanager
def silent_server() -> Iterator[int]:
    """Give the port of a server that answers no attempt to connect, as one that is off."""
    with socket.socket() as listening, ExitStack() as held:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        # The kernel drops further attempts while its queue of unaccepted ones is full.
        for _ in range(4):
            attempt = held.enter_context(socket.socket())
            attempt.settimeout(0)
            attempt.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


def test_router_passes_over_a_server_that_is_off(fresh: Partitions) -> None:
    name = fresh.name_at(1)
    with silent_server() as port, psycopg.connect(fresh.router, autocommit=True) as router:
        (address,) = partition_urls(fresh.router)[1:]
        there = conninfo_to_dict(address)
        both = {"host": f"127.0.0.1,{there['host']}", "port": f"{port},{there['port']}"}
        option = sql.Literal(make_conninfo("", **there | both))
        router.execute(sql.SQL("alter server skipmq options (set p1 {})").format(option))
        router.execute("set statement_timeout = '60s'")
        router.execute("select skipmq.create_queue(%s)", (name,))

    with psycopg.connect(fresh.urls[1]) as owner:
        found = owner.execute("select name from skipmq.queue").fetchall()
    assert found == [(name,)]


def test_router_that_cannot_call_a_partition_is_found(fresh: Partitions) -> None:
    with psycopg.connect(fresh.router, autocommit=True) as router:
        router.execute("alter server skipmq options (set p1 'host=/nowhere port=1')")

    assert "the router cannot call partition 1" in doctor(fresh)


def test_router_is_not_migrated_by_itself(two: Partitions) -> None:
    with pytest.raises(schema.SchemaError, match="run `skipmq partitions init`"):
        schema.migrate(two.router)


def test_doctor_of_a_router_checks_roles_in_each_partition(two: Partitions) -> None:
    done = commands.invoke(
        ("doctor", "--json"),
        environment({"database_url": as_node(two.router), "port": free_port()}),
    )

    found = {each["check"]: each for each in json.loads(done.stdout)["checks"]}
    assert all(found[f"roles of partition {number}"]["ok"] for number in (0, 1))
    assert "a router of 2 partitions" in found["database"]["detail"]
