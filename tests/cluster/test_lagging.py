"""A failover to a standby that lags, under load: what `make faults` runs three times."""

from pathlib import Path

import pytest

from cluster import lagging


@pytest.mark.slow
def test_nothing_of_others_is_touched(public_folder: Path) -> None:
    found = lagging.run(public_folder, seed=1)

    assert not found.violations
    assert found.lost
    assert found.assigned_twice
