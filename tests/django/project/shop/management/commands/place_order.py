import json
from argparse import ArgumentParser
from typing import Any

from django.core.management import BaseCommand

from shop import orders


class Command(BaseCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("order")

    def handle(self, *_: Any, **options: Any) -> None:
        orders.place(**json.loads(options["order"]))
