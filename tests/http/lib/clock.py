# SPDX-License-Identifier: Apache-2.0
"""Times as the API writes them, and bounded waiting for a condition."""
import datetime
import re
import time

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\Z")


def parse(stamp):
    """Seconds since the epoch of a message-plane timestamp: exactly six fractional digits and a literal Z."""
    assert isinstance(stamp, str) and STAMP.match(stamp), stamp
    return datetime.datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()


def lease_seconds(message):
    """How long a fresh delivery of a fresh message is leased, by the broker's own clock."""
    return parse(message["leaseExpiresAt"]) - parse(message["createdAt"])


def eventually(probe, within, what):
    """Call `probe` until it returns something true; fail after `within` seconds."""
    deadline = time.monotonic() + within
    while True:
        value = probe()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(0.05)


class Watch:
    """Elapsed seconds since it was made."""

    def __init__(self):
        self.begun = time.monotonic()

    @property
    def seconds(self):
        return time.monotonic() - self.begun

    def sleep_until(self, seconds):
        """For deadlines that the API itself defines (a lease, a delay), never to hope something has happened."""
        left = seconds - self.seconds
        if left > 0:
            time.sleep(left)
