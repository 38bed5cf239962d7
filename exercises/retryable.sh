#!/usr/bin/env bash
# Whether another try can help. Every yes wants the same key, a pause, and an end; 429 also its Retry-After.
case "$1" in
  timeout | 429 | 500 | 502 | 503 | 504) echo yes ;;
  *) echo no ;;
esac
