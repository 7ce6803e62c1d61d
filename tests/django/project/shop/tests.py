"""The shop's own tests, which `manage.py test` runs in a database that it makes."""

from django.core import management
from django.db import transaction
from django.test import TestCase, TransactionTestCase

from shop import consumers, orders
from shop.models import Order, Shipment
from skipmq.client import ClientError
from skipmq.django.testing import drain, messages


class Outbox(TestCase):
    def test_order_and_message_are_sent_together(self) -> None:
        orders.place("tea", note="now")

        (message,) = messages("orders")
        assert message.json() == {"order": Order.objects.get().pk, "note": "now"}
        assert (message.state, message.receive_count) == ("visible", 0)

    def test_messages_of_another_test_are_not_there(self) -> None:
        assert messages("orders") == []
        assert Order.objects.count() == 0

    def test_refused_order_sends_nothing(self) -> None:
        with self.assertRaises(orders.RefusedError):  # noqa: PT027 - Django's own.
            orders.place("tea", refuse=True)

        assert messages(orders.ORDERS) == []

    def test_messages_are_listed_in_the_order_in_which_they_were_sent(self) -> None:
        orders.ORDERS.send({"n": 0}, using="default", delay=60, attributes={"a": 1})
        orders.ORDERS.send_many([{"n": n} for n in range(1, 1_200)], using="default")

        found = messages("orders")

        assert [each["n"] for each in found.json()] == list(range(1_200))
        assert (found[0].state, found[0].attributes) == ("delayed", {"a": "1"})

    def test_queue_that_is_not_there_is_an_error_with_the_remedy(self) -> None:
        with self.assertRaisesRegex(ClientError, "`skipmq queue create nowhere`"):  # noqa: PT027
            messages("nowhere")

        # The transaction of the test goes on.
        assert Order.objects.count() == 0

    def test_consumers_cannot_run_within_the_transaction_of_a_test(self) -> None:
        with self.assertRaisesRegex(ClientError, "needs a django.test.TransactionTestCase"):  # noqa: PT027
            drain()


class Consumers(TransactionTestCase):
    def test_order_is_shipped(self) -> None:
        orders.place("tea")

        assert drain() == {"done": 1}

        (shipment,) = Shipment.objects.all()
        assert shipment.order == Order.objects.get().pk
        assert messages("orders") == []

    def test_coroutine_does_its_work(self) -> None:
        orders.Queue("async-sessions").send("7", using="default")

        assert drain("shop") == {"done": 1}

        assert Shipment.objects.get().order == 7

    def test_error_of_a_handler_is_raised(self) -> None:
        orders.place("tea", fails_once="no tea today")

        with self.assertRaisesRegex(ValueError, "no tea today"):  # noqa: PT027
            drain()

    def test_app_with_a_database_of_its_own_works_on_that_of_the_tests(self) -> None:
        orders.place("tea")
        consumers.app.dsn = "postgresql://nowhere.invalid/production"
        try:
            assert drain() == {"done": 1}
        finally:
            consumers.app.dsn = None

    def test_nothing_is_left_of_another_test(self) -> None:
        assert messages("orders") == []
        # This one it leaves to the others.
        orders.place("milk")

    def test_nothing_is_left_of_another_test_again(self) -> None:
        self.test_nothing_is_left_of_another_test()

    def test_command_flush_empties_queues(self) -> None:
        with transaction.atomic():
            orders.place("tea")

        management.call_command("flush", interactive=False, verbosity=0)

        assert messages("orders") == []
