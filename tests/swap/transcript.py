# SPDX-License-Identifier: Apache-2.0
"""A client that writes down every answer in a form that two equal brokers share.

Ids become ordinals in the order they are first seen, times and byte counts become marks, the run's own name prefix
becomes a fixed word. Everything else is kept: status, content type, order of keys, numbers, texts. Partitions of one
multi-partition answer come in no promised order, so they are sorted by name.
"""
import json
import re

from lib.reply import check

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(\d+)Z")
PREFIX = "prefix"


class Transcript:
    def __init__(self, api, prefix):
        self.api = api
        self.prefix = prefix
        self.ids = {}
        self.lines = []

    def name(self, rest):
        return f"{self.prefix}{rest}"

    def _text(self, text):
        text = text.replace(self.prefix, PREFIX)
        text = TIME.sub(lambda found: f"<time {len(found.group(1))}>", text)
        return UUID.sub(lambda found: f"<id {self.ids.setdefault(found.group(0), len(self.ids))}>", text)

    def _shape(self, value, key=None):
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._shape(item) for item in value]
        if isinstance(value, dict):
            return {self._text(name): self._shape(item, name) for name, item in value.items()}
        return "<bytes>" if key == "retainedBytes" else value

    @staticmethod
    def _sorted(document):
        if isinstance(document, dict) and document.get("partitionsClaimed", 1) > 1:
            document = dict(document)
            document["messages"] = sorted(document["messages"], key=lambda item: (item["queue"], item["partition"],
                                                                                  item["offset"]))
            del document["partition"], document["partitionId"]
        return document

    def call(self, method, path, body=None):
        """Make one call, write it down, return the parsed answer (None when it has no body)."""
        reply = check(self.api.client.request(method, path, body if body is None or isinstance(body, bytes)
                                              else json.dumps(body).encode()), method)
        document = json.loads(reply.body) if reply.body else None
        shape = json.dumps(self._shape(self._sorted(document)), ensure_ascii=False)
        self.lines.append(f"{method} {self._text(path)} -> {reply.status} {reply.header('content-type')} {shape}")
        return document
