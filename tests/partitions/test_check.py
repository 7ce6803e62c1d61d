"""`skipmq partitions init` and `doctor` name what is wrong, in a sentence with its remedy."""

import psycopg
import pytest

from skipmq.database import schema
from support.partitions import Partitions, run
from support.postgres import Databases


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


def test_number_of_partitions_must_be_a_power_of_two(two: Partitions) -> None:
    refused = two.init(*two.urls, two.urls[0])

    assert "3 partitions: use 1, 2, 4 or another power of two" in str(refused.exception)


def test_partitions_in_another_order_are_refused(two: Partitions) -> None:
    refused = two.init(*reversed(two.urls))

    assert "is partition 1 of 2 of another map" in str(refused.exception)


def test_partition_of_another_map_is_refused(
    two: Partitions, embedded_databases: Databases, router_server: Databases
) -> None:
    other = Partitions([embedded_databases, embedded_databases], router_server)

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

    refused = fresh.init(database, fresh.urls[1])
    with psycopg.connect(fresh.urls[1], autocommit=True) as connection:
        connection.execute("alter sequence skipmq.queue_id_seq increment by 1 restart with 4")
        connection.execute("select skipmq.create_queue('astray')")

    assert "has queues whose numbers belong to another partition" in str(refused.exception)
    assert "partition 1 has 1 queues whose numbers belong elsewhere" in doctor(fresh)
    embedded_databases.drop(database)


def test_server_without_the_extension_is_refused(
    two: Partitions, embedded_databases: Databases
) -> None:
    database = embedded_databases.empty()

    refused = run("init", "--router", database, "--partition", two.urls[0])

    assert refused.exit_code == 1
    embedded_databases.drop(database)


def test_partition_is_no_router(two: Partitions) -> None:
    refused = run("doctor", "--router", two.urls[0])

    assert "is a partition: give a router's address" in str(refused.exception)


def test_restored_partition_is_found_by_its_receipt_keys(fresh: Partitions) -> None:
    with psycopg.connect(fresh.urls[1], autocommit=True) as connection:
        connection.execute("select skipmq.rotate_receipt_key()")

    assert "different keys for receipt handles" in doctor(fresh)
    assert fresh.init().exit_code == 0
    assert "fit" in doctor(fresh)


def test_router_is_not_migrated_by_itself(two: Partitions) -> None:
    with pytest.raises(schema.SchemaError, match="run `skipmq partitions init`"):
        schema.migrate(two.router)
