"""A connection between an SDK and the gateway that loses answers.

It passes requests on to the address that it is given, and answers back. A request whose form says
description=cut… has its first answer taken away: the gateway has given it, and the SDK sees the connection
close. GET /wire/seen shows, for each request that passed, its key, its description and the status that came.
"""

import http.client
import json
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER_TIME_MAX_S = 90
BODY_BYTES_MAX = 1 << 20
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}

host, port = sys.argv[1].removeprefix("http://").rsplit(":", 1)
seen = []
cut = set()
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def pass_on(self):
        length = min(int(self.headers.get("Content-Length", "0")), BODY_BYTES_MAX)
        body = self.rfile.read(length)
        if self.path == "/wire/seen":
            return self.answer(200, [("Content-Type", "application/json")], json.dumps(seen).encode())
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        onward = http.client.HTTPConnection(host, int(port), timeout=ANSWER_TIME_MAX_S)
        onward.request(self.command, self.path, body, headers)
        answer = onward.getresponse()
        told = answer.read()
        onward.close()
        description = dict(urllib.parse.parse_qsl(body.decode())).get("description", "")
        key = self.headers.get("Idempotency-Key")
        with lock:
            seen.append({
                "key": key,
                "description": description,
                "status": answer.status,
                "replayed": answer.headers.get("Idempotent-Replayed"),
                "should_retry": answer.headers.get("Stripe-Should-Retry"),
            })
            lose = description.startswith("cut") and key not in cut
            cut.add(key)
        if lose:
            self.close_connection = True
            return None
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP]
        return self.answer(answer.status, kept, told)

    do_GET = do_POST = pass_on

    def answer(self, status, headers, body):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
