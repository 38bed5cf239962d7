"""Stripe's SDK for Python against the gateway. Arguments: the wire's address and the upstream's."""

import importlib.metadata
import json
import sys
import threading
import time
import urllib.request

import stripe

# Releases below 8 have the classes in stripe.error alone, later ones in the package itself.
NAMESPACE = "stripe" if hasattr(stripe, "IdempotencyError") else "stripe.error"
errors = stripe if NAMESPACE == "stripe" else stripe.error

WIRE, UPSTREAM = sys.argv[1:3]
PATIENCE_S = 30
# Each run has keys and descriptions of its own.
RUN = f"python-{importlib.metadata.version('stripe')}"

stripe.api_base = WIRE
stripe.api_key = "sk_test_shop"
stripe.enable_telemetry = False


def fetched(address):
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def named(address, what):
    return [it for it in fetched(address) if it["description"] == what]


def made(what):
    return named(f"{UPSTREAM}/made", what)


def seen(what):
    return named(f"{WIRE}/wire/seen", what)


def until(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"after {PATIENCE_S} s still not: {what}"
        time.sleep(0.02)


def create(what, retries=0, kind=None, **more):
    stripe.max_network_retries = retries
    return (kind or stripe.Charge).create(
        **{"amount": 1200, "currency": "eur", "description": f"{what} {RUN}", **more}
    )


def refused(expected, *arguments, **more):
    """The error that a call ends with, which is of exactly this class."""
    try:
        found = create(*arguments, **more)
    except errors.StripeError as error:
        assert type(error) is expected, f"expected {expected}, found {error!r}"
        return error
    raise AssertionError(f"expected {expected}, found an answer: {found}")


def replayed(answer):
    return answer.last_response.headers.get("Idempotent-Replayed")


def a_lost_answer_is_sent_for_again_under_one_key():
    charge = create("cut", retries=3)
    assert charge.id == made(f"cut {RUN}")[0]["id"]
    assert len(made(f"cut {RUN}")) == 1
    first, second = seen(f"cut {RUN}")
    assert first["key"] and first["key"] == second["key"]
    assert (first["replayed"], second["replayed"]) == (None, "true")


def a_retry_gets_the_same_object():
    key = f"same-{RUN}"
    first = create("same", idempotency_key=key)
    again = create("same", idempotency_key=key)
    assert first.id == again.id and first.last_response.body == again.last_response.body
    assert (replayed(first), replayed(again)) == (None, "true")
    assert len(made(f"same {RUN}")) == 1


def other_content_is_an_idempotency_error_where_the_route_answers_400():
    key, kind = f"other-{RUN}", stripe.PaymentIntent
    first = create("other", kind=kind, idempotency_key=key)
    error = refused(errors.IdempotencyError, "other", kind=kind, amount=1300, idempotency_key=key)
    assert error.http_status == 400 and error.error.code == "samekey.key-reused"
    assert create("other", kind=kind, idempotency_key=key).id == first.id
    assert len(made(f"other {RUN}")) == 1


def other_content_is_only_an_api_error_where_it_answers_422():
    key = f"other-422-{RUN}"
    create("other-422", idempotency_key=key)
    error = refused(errors.APIError, "other-422", retries=3, amount=1300, idempotency_key=key)
    assert error.http_status == 422 and error.json_body["code"] == "samekey.key-reused"
    assert [it["status"] for it in seen(f"other-422 {RUN}")] == [200, 422], "it was sent again"


def the_first_is_still_running():
    what, key = f"waits {RUN}", f"waits-{RUN}"
    ended = []
    first = threading.Thread(target=lambda: ended.append(create("waits", idempotency_key=key)))
    first.start()
    until(lambda: made(what), "the first is at the upstream")
    error = refused(errors.APIError, "waits", idempotency_key=key)
    assert error.http_status == 409 and error.json_body["code"] == "samekey.in-progress"
    second = threading.Thread(
        target=lambda: ended.append(create("waits", retries=10, idempotency_key=key))
    )
    second.start()
    until(lambda: len(seen(what)) >= 3, "the second was told to wait, and came again")
    assert {(it["status"], it["should_retry"]) for it in seen(what)} == {(409, "true")}
    fetched(f"{UPSTREAM}/release")
    first.join(PATIENCE_S)
    second.join(PATIENCE_S)
    assert len(ended) == 2 and ended[0].id == ended[1].id, ended
    assert len(made(what)) == 1


def an_unknown_outcome_is_not_sent_again():
    key = f"lost-{RUN}"
    error = refused(errors.APIError, "lost", retries=3, idempotency_key=key)
    assert error.http_status == 409 and error.json_body["code"] == "samekey.outcome-unknown"
    # The SDK sends every other 409 again.
    assert [it["should_retry"] for it in seen(f"lost {RUN}")] == ["false"]
    assert refused(errors.APIError, "lost", idempotency_key=key).http_status == 409
    assert len(made(f"lost {RUN}")) == 1


def a_failure_of_the_upstream_is_asked_about_and_not_run_again():
    key = f"broken-{RUN}"
    error = refused(errors.APIError, "broken", retries=3, idempotency_key=key)
    # The 500 says that it may be sent again; what comes then says that nobody knows, and not to go on.
    assert error.http_status == 409 and error.json_body["code"] == "samekey.outcome-unknown"
    assert [it["should_retry"] for it in seen(f"broken {RUN}")] == ["true", "false"]
    assert len(made(f"broken {RUN}")) == 1


def a_decline_stays_a_decline():
    key = f"declined-{RUN}"
    for expected in (None, "true"):
        error = refused(errors.CardError, "declined", retries=3, idempotency_key=key)
        assert error.code == "card_declined" and error.http_status == 402
        assert seen(f"declined {RUN}")[-1]["replayed"] == expected


def two_accounts_never_meet():
    key = f"account-{RUN}"
    shop = create("account", idempotency_key=key)
    other = create("account", idempotency_key=key, api_key="sk_test_other")
    assert shop.id != other.id and replayed(other) is None
    orgs = {(it["org"], it["key"]) for it in made(f"account {RUN}")}
    assert len(orgs) == 2 and {org for org, _ in orgs} == {"shop", "other"}
    assert all(sent != key for _, sent in orgs), "the caller's own key went on"


def reads_pass_through():
    charge = create("read")
    assert stripe.Charge.retrieve(charge.id).amount == 1200


print(f"stripe {RUN}: errors are {NAMESPACE}.IdempotencyError, .APIError, .CardError")
for check in (
    a_lost_answer_is_sent_for_again_under_one_key,
    a_retry_gets_the_same_object,
    other_content_is_an_idempotency_error_where_the_route_answers_400,
    other_content_is_only_an_api_error_where_it_answers_422,
    the_first_is_still_running,
    an_unknown_outcome_is_not_sent_again,
    a_failure_of_the_upstream_is_asked_about_and_not_run_again,
    a_decline_stays_a_decline,
    two_accounts_never_meet,
    reads_pass_through,
):
    check()
    print(f"  ok {check.__name__}")
