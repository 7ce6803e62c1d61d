"""The trace header of X-Ray, which messages have, as the one of W3C."""

import re

_ROOT, _PARENT = re.compile("1-([0-9a-f]{8})-([0-9a-f]{24})"), re.compile("[0-9a-f]{16}")


def traceparent(header: str) -> str | None:
    """Return the `traceparent` of a header such as `Root=1-67891233-…;Parent=…;Sampled=1`, or None.

    Source: AWS X-Ray Developer Guide, "Tracing header". Root is W3C's trace ID in two parts.
    """
    fields = dict(field.strip().split("=", 1) for field in header.split(";") if "=" in field)
    root = _ROOT.fullmatch(fields.get("Root", ""))
    parent = _PARENT.fullmatch(fields.get("Parent", ""))
    if root is None or parent is None:
        return None
    return f"00-{root[1]}{root[2]}-{parent[0]}-{int(fields.get('Sampled') == '1'):02}"
