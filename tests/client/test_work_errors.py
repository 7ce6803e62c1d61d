"""What `skipmq work` says when it is given no app or no database."""

import pytest

from support.worker import WorkerProcess


@pytest.mark.parametrize(
    ("app", "text"),
    [
        ("worker_apps", "'worker_apps' is not of the form MODULE:APP, as in shop.consumers:shop"),
        ("nowhere:app", "there is no module 'nowhere' in "),
        ("nowhere.at_all:app", "there is no module 'nowhere.at_all' in "),
        ("worker_apps:nothing", "worker_apps:nothing is missing: the module has worker_apps:ef"),
        ("worker_apps:ORDERS", "worker_apps:ORDERS is no App: the module has worker_apps:effects"),
        ("worker_apps:effects", "the app has no database: App('postgresql://shop@localhost/ski"),
    ],
)
def test_app_that_is_not_there_is_an_error_with_the_remedy(app: str, text: str) -> None:
    with WorkerProcess(app) as worker:
        assert worker.ended() in {1, 2}

    assert text in worker.log
    assert "Traceback" not in worker.log


@pytest.mark.parametrize(
    ("dsn", "text"),
    [
        ("http://127.0.0.1:1", "the broker cannot be reached: http://127.0.0.1:1 does not answer"),
        ("https://localhost/path", "is not a broker's URL: write https://HOST:PORT"),
        ("https://shop:Pl4nted@localhost", "write the broker's URL without a user and a password"),
        ("postgresql://a b", "the URL of the database cannot be read"),
        ("mysql://shop:Pl4nted@h/x", "cannot be read: write it as postgresql://ROLE"),
        ("postgresql+psycopg://shop@127.0.0.1:1/x", "the database cannot be reached: "),
        ("postgresql://shop@127.0.0.1:1/x", "the database cannot be reached: "),
    ],
)
def test_database_that_is_none_is_an_error_with_the_remedy(dsn: str, text: str) -> None:
    with WorkerProcess("worker_apps:effects", "--dsn", dsn) as worker:
        assert worker.ended() == 1

    assert text in worker.log
    assert "Traceback" not in worker.log
    assert "Pl4nted" not in worker.log
