from django.db import models


class Order(models.Model):
    item = models.TextField()

    def __str__(self) -> str:
        return self.item


class Shipment(models.Model):
    """What a consumer does for an order; twice would be seen."""

    order = models.IntegerField()
    # Which receive of the message did it.
    receive = models.IntegerField()

    def __str__(self) -> str:
        return f"shipment of {self.order}"
