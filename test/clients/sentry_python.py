"""An application that reports what happens to it, with sentry_sdk as it is. Prints the event ids as JSON."""

import json
import os

import sentry_sdk

sentry_sdk.init(
    os.environ["SENTRY_DSN"],
    release="shop@1.2.3",
    environment="live",
    traces_sample_rate=float(os.environ["TRACES"]),
    auto_session_tracking=False,
)


def read_cart():
    password = "secret of the frame"
    return {}["cart" + password[:0]]


ids = {}
try:
    try:
        read_cart()
    except KeyError as error:
        raise RuntimeError("could not check out") from error
except RuntimeError as error:
    ids["chained"] = sentry_sdk.capture_exception(error)
ids["message"] = sentry_sdk.capture_message("the stock is low", "warning")
sentry_sdk.Hub.current.start_session()
sentry_sdk.Hub.current.end_session()
with sentry_sdk.push_scope() as scope:
    scope.add_attachment(bytes=b"{}", filename="cart.json")
    ids["attached"] = sentry_sdk.capture_exception(ValueError("with an attachment"))
sentry_sdk.flush(20)
print(json.dumps({"ids": ids}))
