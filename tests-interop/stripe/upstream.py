"""Enough of a payments API for an SDK: charges and payment intents that are made, and answers that are not given.

It knows nothing of keys: what is sent twice is made twice. What a charge's description says decides how it ends:

    lost      made, and the connection is closed without an answer
    broken    made, and answered with 500
    declined  not made, and answered with 402
    waits     made, and answered when somebody asked for /release

GET /made counts what was made, and shows the keys that came with it.
"""

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# A lane that has failed must not leave a request waiting for ever.
RELEASE_PATIENCE_S = 60
BODY_BYTES_MAX = 1 << 20
OBJECTS = {"/v1/charges": ("charge", "ch"), "/v1/payment_intents": ("payment_intent", "pi")}

made = []
lock = threading.Lock()
released = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Request-Id", f"req_{status}")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/made":
            return self.answer(200, made)
        if self.path == "/release":
            released.set()
            return self.answer(200, {})
        found = [it for it in made if self.path.endswith("/" + it["id"])]
        return self.answer(200, found[0]) if found else self.answer(404, error("invalid_request_error", "none"))

    def do_POST(self):
        length = min(int(self.headers.get("Content-Length", "0")), BODY_BYTES_MAX)
        fields = dict(urllib.parse.parse_qsl(self.rfile.read(length).decode()))
        if self.path not in OBJECTS:
            return self.answer(404, error("invalid_request_error", f"no {self.path} here"))
        how = fields.get("description", "")
        if how.startswith("declined"):
            return self.answer(402, error("card_error", "Your card was declined.", "card_declined"))
        kind, prefix = OBJECTS[self.path]
        with lock:
            document = {
                "id": f"{prefix}_{len(made) + 1:04d}",
                "object": kind,
                "amount": int(fields["amount"]),
                "currency": fields["currency"],
                "description": how,
                "status": "succeeded",
                "key": self.headers.get("Idempotency-Key"),
                "org": self.headers.get("X-Org"),
            }
            made.append(document)
        if how.startswith("waits"):
            released.wait(RELEASE_PATIENCE_S)
        if how.startswith("lost"):
            self.close_connection = True
            return None
        if how.startswith("broken"):
            return self.answer(500, error("api_error", "An error of the API itself."))
        return self.answer(200, document)


def error(kind, message, code=None):
    return {"error": {"type": kind, "message": message, "code": code}}


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
