#!/usr/bin/env bash
# Wrong on purpose: no key. After a timeout the same order is sent again, and paid again.
URL=${LAB_URL:-http://127.0.0.1:8021}
TIMEOUT=${PAY_TIMEOUT:-2}

pay() {
  curl -s --max-time "$TIMEOUT" -X POST "$URL/payments" \
    -H "Content-Type: application/json" -d "{\"order_id\":\"$1\",\"amount\":1500}" > /dev/null
}

for order in ORD-1 ORD-2 ORD-3 ORD-4; do
  pay "$order" || pay "$order"
done
