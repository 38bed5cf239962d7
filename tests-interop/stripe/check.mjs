// Stripe's SDK for Node against the gateway. Arguments: the package's name, what it calls other content under a
// 422, the wire's address, the upstream's, and the folder of the packages.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const [PACKAGE, AT_422, WIRE, UPSTREAM, PACKAGES] = process.argv.slice(2);
const Stripe = createRequire(join(PACKAGES, "package.json"))(PACKAGE);
const PATIENCE_MS = 30_000;
const RUN = `node-${Stripe.PACKAGE_VERSION}`;
const { hostname, port } = new URL(WIRE);

const account = (secret) =>
  new Stripe(secret, { host: hostname, port: Number(port), protocol: "http", telemetry: false });
const shop = account("sk_test_shop");

const fetched = async (address) => (await fetch(address)).json();
const named = async (address, what) => (await fetched(address)).filter((it) => it.description === what);
const made = (what) => named(`${UPSTREAM}/made`, `${what} ${RUN}`);
const seen = (what) => named(`${WIRE}/wire/seen`, `${what} ${RUN}`);

async function until(condition, what) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `after ${PATIENCE_MS} ms still not: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function create(what, { retries = 0, kind = "charges", client = shop, amount = 1200, key } = {}) {
  const fields = { amount, currency: "eur", description: `${what} ${RUN}` };
  const options = { maxNetworkRetries: retries };
  if (key) options.idempotencyKey = `${key}-${RUN}`;
  return client[kind === "charges" ? "charges" : "paymentIntents"].create(fields, options);
}

/** The error that a call ends with, which is of exactly this type. */
async function refused(type, what, options) {
  try {
    await create(what, options);
  } catch (error) {
    assert.equal(error.type, type, `${error.type}: ${error.message}`);
    assert.equal(error.constructor.name, type);
    return error;
  }
  assert.fail(`expected ${type}, found an answer`);
}

const replayed = (answer) => answer.lastResponse.headers["idempotent-replayed"];

const checks = {
  async "a lost answer is sent for again under one key"() {
    const charge = await create("cut", { retries: 3 });
    assert.deepEqual((await made("cut")).map((it) => it.id), [charge.id]);
    const [first, second] = await seen("cut");
    assert.ok(first.key);
    assert.equal(first.key, second.key);
    assert.deepEqual([first.replayed, second.replayed], [null, "true"]);
  },
  async "a retry gets the same object"() {
    const first = await create("same", { key: "same" });
    const again = await create("same", { key: "same" });
    assert.equal(JSON.stringify(first), JSON.stringify(again));
    assert.deepEqual([replayed(first), replayed(again)], [undefined, "true"]);
    assert.equal((await made("same")).length, 1);
  },
  async "other content is an idempotency error at 400, and at 422 only where the SDK looks at the type"() {
    for (const [kind, status, type] of [["intents", 400, "StripeIdempotencyError"], ["charges", 422, AT_422]]) {
      const key = `other-${status}`;
      const first = await create(key, { key, kind });
      const error = await refused(type, key, { key, kind, amount: 1300, retries: 3 });
      assert.equal(error.statusCode, status);
      assert.equal(error.code, "samekey.key-reused");
      assert.deepEqual((await seen(key)).map((it) => it.status), [200, status]);
      assert.equal((await create(key, { key, kind })).id, first.id);
      assert.equal((await made(key)).length, 1);
    }
  },
  async "the first is still running"() {
    const first = create("waits", { key: "waits" });
    await until(async () => (await made("waits")).length === 1, "the first is at the upstream");
    const error = await refused("StripeAPIError", "waits", { key: "waits" });
    assert.equal(error.statusCode, 409);
    assert.equal(error.code, "samekey.in-progress");
    const second = create("waits", { key: "waits", retries: 10 });
    await until(async () => (await seen("waits")).length >= 3, "the second was told to wait, and came again");
    for (const it of await seen("waits")) assert.deepEqual([it.status, it.should_retry], [409, "true"]);
    await fetched(`${UPSTREAM}/release`);
    assert.equal((await first).id, (await second).id);
    assert.equal((await made("waits")).length, 1);
  },
  async "an unknown outcome is not sent again"() {
    const error = await refused("StripeAPIError", "lost", { key: "lost", retries: 3 });
    assert.equal(error.statusCode, 409);
    assert.equal(error.code, "samekey.outcome-unknown");
    // The SDK sends every other 409 again.
    assert.deepEqual((await seen("lost")).map((it) => it.should_retry), ["false"]);
    await refused("StripeAPIError", "lost", { key: "lost" });
    assert.equal((await made("lost")).length, 1);
  },
  async "a failure of the upstream is asked about and not run again"() {
    const error = await refused("StripeAPIError", "broken", { key: "broken", retries: 3 });
    // The 500 says that it may be sent again; what comes then says that nobody knows, and not to go on.
    assert.equal(error.code, "samekey.outcome-unknown");
    const said = (await seen("broken")).map((it) => it.should_retry);
    assert.deepEqual(said, ["true", "false"]);
    assert.equal((await made("broken")).length, 1);
  },
  async "a decline stays a decline"() {
    for (const expected of [null, "true"]) {
      const error = await refused("StripeCardError", "declined", { key: "declined", retries: 3 });
      assert.equal(error.code, "card_declined");
      assert.equal((await seen("declined")).at(-1).replayed, expected);
    }
  },
  async "two accounts never meet"() {
    const mine = await create("account", { key: "account" });
    const theirs = await create("account", { key: "account", client: account("sk_test_other") });
    assert.notEqual(mine.id, theirs.id);
    const orgs = (await made("account")).map((it) => it.org).sort();
    assert.deepEqual(orgs, ["other", "shop"]);
  },
  async "reads pass through"() {
    const charge = await create("read", { key: "read" });
    assert.equal((await shop.charges.retrieve(charge.id)).amount, 1200);
  },
};

console.log(`stripe ${RUN}: error types are StripeIdempotencyError, StripeAPIError, StripeCardError`);
for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(`  ok ${name}`);
}
// The SDK keeps a timer of 80 seconds for each request, which would keep this process too.
process.exit(0);
