select now() as seen_at
