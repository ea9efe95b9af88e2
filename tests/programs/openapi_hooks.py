"""How schemathesis sends what is not JSON."""

import schemathesis


@schemathesis.serializer("application/toml")
def toml(ctx, value):
    return value.encode() if isinstance(value, str) else str(value).encode()
