#!/usr/bin/env bash
# Waiting times before retries 1 to 6, in seconds: half of the doubled time is certain, the other half is chance.
# The certain half keeps the times growing; chance keeps clients apart.
base_ms=1000
for retry in 0 1 2 3 4 5; do
  whole=$((base_ms << retry))
  half=$((whole / 2))
  chance=$(((RANDOM << 15 | RANDOM) % half))
  printf '%d.%03d\n' $(((half + chance) / 1000)) $(((half + chance) % 1000))
done
