# SPDX-License-Identifier: Apache-2.0
"""One HTTP answer, whatever version carried it, and the rules every answer obeys.

Header names are lower case. `body` is the raw body: tests about exact bytes look at it, all others at `json`.
"""
import json

NO_BODY = (204, 304)


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def __repr__(self):
        return f"<{self.status} {dict(self.headers)} {self.body[:600]!r}>"

    def all(self, name):
        return [value for key, value in self.headers if key == name]

    def header(self, name):
        found = self.all(name)
        return found[0] if found else None

    @property
    def json(self):
        return json.loads(self.body.decode("utf-8"))

    @property
    def error(self):
        """The text of an error answer, after checking its envelope."""
        document = self.json
        assert isinstance(document, dict) and isinstance(document.get("error"), str), self
        assert document["error"], self
        return document["error"]


def check(reply, method="GET"):
    """What holds for every answer of the API: bare 204s, JSON everywhere else, errors in an envelope."""
    if reply.status == 204:
        for name in ("content-length", "transfer-encoding", "content-type"):
            assert reply.header(name) is None, f"204 announces a body: {reply}"
        assert reply.body == b"", reply
        return reply
    if method == "HEAD":
        assert reply.body == b"", reply
        return reply
    assert reply.header("content-type") == "application/json", reply
    if reply.status >= 400:
        assert reply.error
    return reply
