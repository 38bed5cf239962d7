#!/usr/bin/env bash
# One key for each order, made before the first attempt. A retry carries the same key and is answered, not paid.
URL=${LAB_URL:-http://127.0.0.1:8021}
TIMEOUT=${PAY_TIMEOUT:-2}

pay() {
  curl -s --max-time "$TIMEOUT" -X POST "$URL/payments" -H "Idempotency-Key: $2" \
    -H "Content-Type: application/json" -d "{\"order_id\":\"$1\",\"amount\":1500}" > /dev/null
}

for order in ORD-1 ORD-2 ORD-3 ORD-4; do
  K=$(cat /proc/sys/kernel/random/uuid 2> /dev/null || uuidgen)
  pay "$order" "$K" || pay "$order" "$K"
done
