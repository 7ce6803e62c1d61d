"""The command that runs the consumers of a project."""

import logging
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management import BaseCommand, CommandError
from django.utils import autoreload

from skipmq.client.errors import ClientError
from skipmq.client.health import LOOPBACK
from skipmq.client.outcomes import has_failed
from skipmq.client.worker import UnfinishedError
from skipmq.django import configuration, worker


class Command(BaseCommand):
    """manage.py skipmq_work."""

    help = (
        "Run the consumers in consumers.py of installed apps. SIGTERM or Ctrl-C claims no more,"
        " ends what runs and returns the rest; the second one ends at once."
    )
    requires_system_checks = (configuration.TAG,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options of `skipmq work`, and --reload."""
        parser.add_argument(
            "app", nargs="*", metavar="APP", help="Label of an app; all by default."
        )
        parser.add_argument(
            "--concurrency", type=_count, help="Concurrent handlers of each consumer."
        )
        parser.add_argument(
            "--once", action="store_true", help="Stop when no message is visible; 1 if any failed."
        )
        parser.add_argument(
            "--grace",
            type=float,
            default=30.0,
            help="Seconds that handlers have to end after SIGTERM (default 30).",
        )
        parser.add_argument(
            "--health-port", type=_count, help="Port of /health/live, /health/ready and /metrics."
        )
        parser.add_argument(
            "--health-host", default=LOOPBACK, help="Where it listens (default 127.0.0.1)."
        )
        parser.add_argument(
            "--reload", action="store_true", help="Start again when code changes; to develop."
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Run until it is stopped; exit with 1 as `skipmq work` does."""
        if options["reload"]:
            autoreload.run_with_reloader(self._run, options)
        else:
            self._run(options)

    def _run(self, options: dict[str, Any]) -> None:
        autoreload.raise_last_exception()
        if not logging.getLogger("skipmq").hasHandlers():
            # Django's LOGGING has none but for Django itself, unless the project names more.
            logging.basicConfig(
                level=logging.INFO if options["verbosity"] else logging.WARNING,
                format="%(asctime)s %(levelname)s %(name)s: %(message)s",
            )
        try:
            app = worker.app(options["app"])
            names = ", ".join(consumer.queue.name for consumer in app.consumers)
            self._say(f"skipmq: consuming {names or 'no queue'}. Ctrl-C stops it.")
            outcomes = app.run(
                once=options["once"],
                concurrency=options["concurrency"],
                grace=options["grace"],
                health_port=options["health_port"],
                health_host=options["health_host"],
            )
        except ClientError as error:
            raise CommandError(str(error)) from error
        except UnfinishedError as error:
            self._say(f"skipmq: {error}")
            sys.stdout.flush()
            # The threads of those handlers would keep the process.
            os._exit(1)
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        self._say(f"skipmq: stopped ({counts or 'no message'})")
        if options["once"] and has_failed(outcomes):
            sys.exit(1)

    def _say(self, text: str) -> None:
        # As it is: Django would have all of it red.
        self.stderr.write(text, str)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
