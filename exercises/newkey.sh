#!/usr/bin/env bash
# Wrong on purpose: the key is made inside the attempt, so that the retry has another one.
URL=${LAB_URL:-http://127.0.0.1:8021}
TIMEOUT=${PAY_TIMEOUT:-2}

pay() {
  local K
  K=$(cat /proc/sys/kernel/random/uuid 2> /dev/null || uuidgen)
  curl -s --max-time "$TIMEOUT" -X POST "$URL/payments" -H "Idempotency-Key: $K" \
    -H "Content-Type: application/json" -d "{\"order_id\":\"$1\",\"amount\":1500}" > /dev/null
}

for order in ORD-1 ORD-2 ORD-3 ORD-4; do
  pay "$order" || pay "$order"
done
