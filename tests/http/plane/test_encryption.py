# SPDX-License-Identifier: Apache-2.0
"""Encrypted payloads (decisions 9 and 23; seed: queue options, encryptionEnabled): nothing readable is stored, exactly
what was pushed comes back, and whoever has no key stores nothing rather than plain text."""
import re
import subprocess

import pytest

from lib import clock, stored
from lib.api import Api, tids
from lib.broker import executable
from lib.fixtures import ALL, make_api

KEY, OTHER = "5a" * 32, "0123456789abcdefABCDEF9876543210" * 2
ENVELOPE = re.compile(rb'\{"encrypted":"[A-Za-z0-9+/]*={0,2}","iv":"[A-Za-z0-9+/]{22}==","authTag":"[A-Za-z0-9+/]{22}=="\}\Z')
LOOKALIKE = (b'{"encrypted":"zqdAPU1ga24HTsXTuvOdGA==","iv":"AAAAAAAAAAAAAAAAAAAAAA==",'
             b'"authTag":"0NHIp5mZa/AmW5i11Iq5GQ=="}')
PAYLOADS = [b"null", b'""', b"1e2", b"-0", b'"\\u0000"', b'"\\ud83d"', b"[]", b'{"z":1,"a":2,"z":3}',
            b'{ "b" :\t1.10,\r\n "a": "\xc3\xa9" }', b'"' + b"kilowatt" * 131072 + b'"', LOOKALIKE]


@pytest.fixture(params=ALL)
def key_api(request, brokers, brokers_seen):
    made = make_api(brokers, brokers_seen, request.param, QUEEN_ENCRYPTION_KEY=KEY)
    yield made
    made.close()


@pytest.fixture(params=["h1", "h2"])
def key_pg_api(request, brokers, brokers_seen):
    made = make_api(brokers, brokers_seen, ("pg", request.param), QUEEN_ENCRYPTION_KEY=KEY)
    yield made
    made.close()


@pytest.fixture
def peer(own_broker):
    """A factory of further brokers on another broker's database."""
    def make(broker, **env):
        where = broker.socket_file()
        return own_broker("pg", QUEEN_BIND_ADDR="127.0.0.1", PG_HOST=str(where.parent),
                          PG_PORT=where.name.rsplit(".", 1)[1], PG_USER="postgres", PG_DATABASE="postgres",
                          PG_PASSWORD=(broker.data / "pg.password").read_text().strip(), **env)
    return make


def body_of(q, payloads):
    return b'{"items":[%s]}' % b",".join(b'{"queue":"%s","payload":%s}' % (q.encode(), p) for p in payloads)


def data_of(body):
    """The bytes of each message's data."""
    return re.findall(rb'"data":(.*?),"producerSub":', body, re.DOTALL)


def encrypt(api, q, on=True):
    assert api.configure(q, encryptionEnabled=on)["options"]["encryptionEnabled"] is on


def push_data(api, q, *payloads, **where):
    results = api.push(*[{"queue": q, "payload": payload, **where} for payload in payloads])
    assert [result["status"] for result in results] == ["queued"] * len(payloads), results
    return results


def data(popped):
    return [message["data"] for message in popped["messages"]] if popped else []


def test_payloads_come_back_byte_for_byte(key_api, q):
    encrypt(key_api, q)
    reply = key_api.push_reply(body_of(q, PAYLOADS))
    assert [item["status"] for item in reply.json] == ["queued"] * len(PAYLOADS)
    assert data_of(key_api.pop_reply(q, batch=100).body) == PAYLOADS


def test_nothing_readable_is_stored(key_pg_api, q):
    encrypt(key_pg_api, q)
    assert key_pg_api.push_reply(body_of(q, PAYLOADS)).status == 201
    push_data(key_pg_api, q, {"card": "4111111111111111"}, {"card": "4111111111111111"})
    rows = stored.payloads(key_pg_api.broker, q)
    assert len(rows) == len(PAYLOADS) + 2
    for sealed, payload in rows:
        assert sealed and ENVELOPE.match(payload), payload[:200]
        assert b"4111111111111111" not in payload and b"kilowatt" not in payload
    assert len({payload for _, payload in rows}) == len(rows), "every message has an iv of its own"


def test_names_and_ids_stay_readable_and_a_traced_message_keeps_its_trace(key_pg_api, q):
    encrypt(key_pg_api, q)
    trace = "01890000-0000-7000-8000-00000000abcd"
    key_pg_api.push({"queue": q, "partition": "eu", "transactionId": "t-1", "traceId": trace, "payload": 7})
    message = key_pg_api.pop(q)["messages"][0]
    assert (message["transactionId"], message["traceId"], message["partition"], message["data"]) == \
        ("t-1", trace, "eu", 7)


def test_both_forms_live_in_one_queue(key_api, q):
    key_api.configure(q)
    push_data(key_api, q, "plain 0")
    encrypt(key_api, q)
    push_data(key_api, q, "sealed 1", "sealed 2")
    encrypt(key_api, q, on=False)
    push_data(key_api, q, "plain 3")
    assert data(key_api.pop(q, batch=10)) == ["plain 0", "sealed 1", "sealed 2", "plain 3"]
    if key_api.broker.storage == "pg":
        assert [sealed for sealed, _ in stored.payloads(key_api.broker, q)] == [False, True, True, False]


def test_one_body_may_go_to_queues_of_both_kinds(key_api, name):
    sealed, plain = name("sealed"), name("plain")
    encrypt(key_api, sealed)
    for number in range(3):
        items = [{"queue": where, "partition": lane, "payload": [number, where, lane]}
                 for where in (sealed, plain) for lane in ("a", "b")]
        assert {result["status"] for result in key_api.push(*items)} == {"queued"}
    for where in (sealed, plain):
        for lane in ("a", "b"):
            assert data(key_api.pop(where, lane, batch=10)) == [[number, where, lane] for number in range(3)]
    if key_api.broker.storage == "pg":
        assert {flag for flag, _ in stored.payloads(key_api.broker, sealed)} == {True}
        assert {flag for flag, _ in stored.payloads(key_api.broker, plain)} == {False}


def test_pushes_of_a_transaction_are_sealed(key_pg_api, q):
    encrypt(key_pg_api, q)
    items = b",".join(b'{"queue":"%s","payload":%s}' % (q.encode(), payload) for payload in PAYLOADS)
    reply = key_pg_api.call("POST", "/api/v1/transaction", b'{"operations":[{"type":"push","items":[%s]}]}' % items)
    assert reply.status == 200 and reply.json["success"] is True, reply
    rows = stored.payloads(key_pg_api.broker, q)
    assert len(rows) == len(PAYLOADS)
    assert all(sealed and ENVELOPE.match(payload) for sealed, payload in rows)
    assert data_of(key_pg_api.pop_reply(q, batch=100).body) == PAYLOADS


def test_what_looks_like_an_envelope_is_served_as_it_was_pushed(key_api, q):
    assert key_api.push_reply(body_of(q, [LOOKALIKE])).status == 201
    assert data_of(key_api.pop_reply(q).body) == [LOOKALIKE]


def test_an_envelope_that_this_key_opens_is_still_a_clients_own_payload(key_pg_api, name):
    secret, plain = name(), name()
    encrypt(key_pg_api, secret)
    push_data(key_pg_api, secret, "for one queue only")
    (_, envelope), = stored.payloads(key_pg_api.broker, secret)
    assert key_pg_api.push_reply(body_of(plain, [envelope])).status == 201
    assert data_of(key_pg_api.pop_reply(plain).body) == [envelope]


def test_a_repeat_is_a_duplicate(key_api, q):
    encrypt(key_api, q)
    item = {"queue": q, "transactionId": "once", "payload": {"n": 1}}
    first = key_api.push(item)[0]
    again = key_api.push(item)[0]
    assert (again["status"], again["message_id"]) == ("duplicate", first["message_id"])
    results = key_api.push(item, {**item, "transactionId": "new"}, {**item, "transactionId": "new"})
    assert [result["status"] for result in results] == ["duplicate", "queued", "duplicate"]
    assert results[2]["message_id"] == results[1]["message_id"]
    assert key_api.popped(q, batch=10) == ["once", "new"]


def test_without_a_window_repeats_are_stored_and_sealed(key_api, q):
    key_api.configure(q, encryptionEnabled=True, dedupWindowSeconds=0)
    item = {"queue": q, "transactionId": "same", "payload": "x"}
    assert [result["status"] for result in key_api.push(item, item)] == ["queued"] * 2
    assert data(key_api.pop(q, batch=10)) == ["x", "x"]


def test_order_holds_through_many_pushes(key_api, q):
    encrypt(key_api, q)
    for start in range(0, 300, 30):
        push_data(key_api, q, *range(start, start + 30))
    assert data(key_api.pop(q, batch=1000)) == list(range(300))


def test_switching_on_is_seen_at_once_by_every_broker(own_broker, peer, q):
    first = own_broker("pg", QUEEN_ENCRYPTION_KEY=KEY)
    second = peer(first, QUEEN_ENCRYPTION_KEY=KEY)
    apis = [Api(first.port), Api(second.port, "h2")]
    for api in apis:  # both brokers know the lane by now
        push_data(api, q, "before")
    encrypt(apis[0], q)
    for api in apis[::-1]:
        push_data(api, q, "after")
    assert [sealed for sealed, _ in stored.payloads(first, q)] == [False, False, True, True]
    assert data(apis[1].pop(q, batch=10)) == ["before", "before", "after", "after"]
    for broker in (second, first):
        broker.stop()


def test_a_broker_without_a_key_stores_nothing_of_an_encrypting_queue(own_broker, peer, name):
    holder = own_broker("pg", QUEEN_ENCRYPTION_KEY=KEY)
    keyless = peer(holder)
    secret, open_queue = name("secret"), name("open")
    encrypt(Api(holder.port), secret)
    for version in ("h1", "h2"):
        api = Api(keyless.port, version)
        results = api.push({"queue": secret, "payload": "4111111111111111"}, {"queue": open_queue, "payload": 1},
                           {"queue": secret, "partition": "eu", "payload": "4111111111111111"})
        assert [result["status"] for result in results] == ["failed", "queued", "failed"]
    assert stored.payloads(holder, secret) == []
    reply = Api(keyless.port).configure_reply({"queue": open_queue, "options": {"encryptionEnabled": True}})
    assert reply.status == 400 and "encryptionEnabled" in reply.error
    for broker in (keyless, holder):
        broker.stop()


def test_keys_rotate(own_broker, q):
    broker = own_broker("pg", QUEEN_ENCRYPTION_KEY=KEY)
    api = Api(broker.port)
    encrypt(api, q)
    push_data(api, q, "first key")
    broker.stop()
    broker.env = {"QUEEN_ENCRYPTION_KEY": OTHER, "QUEEN_ENCRYPTION_OLD_KEYS": f"{'00' * 32},{KEY}"}
    api = Api(broker.start().port)
    push_data(api, q, "second key")
    assert data(api.pop(q, batch=10, consumerGroup="a", subscriptionMode="all")) == ["first key", "second key"]
    broker.stop()
    broker.env = {"QUEEN_ENCRYPTION_OLD_KEYS": f"{KEY},{OTHER}"}
    api = Api(broker.start().port)
    assert data(api.pop(q, batch=10, consumerGroup="b", subscriptionMode="all")) == ["first key", "second key"]
    assert [result["status"] for result in api.push({"queue": q, "payload": 1})] == ["failed"], "old keys only open"
    assert api.configure_reply({"queue": q, "options": {"encryptionEnabled": True}}).status == 400
    broker.stop()


def letters(broker, q):
    """(offset, transactionId, payload, error) of a queue's dead letters, in order of offset."""
    return broker.psql(
        """SELECT d."offset", d.transaction_id, encode(d.payload, 'escape'), d.error FROM queen.log_dlq d """
        "JOIN queen.log_partitions p ON p.id = d.partition_id JOIN queen.queues k ON k.id = p.queue_id "
        f"""WHERE k.name = '{q}' ORDER BY d.consumer_group, d."offset" """)


def damage(broker, q, offset):
    """Changes the first character of the ciphertext of a message that is alone in its segment."""
    at = "position('\\x22656e63727970746564223a22'::bytea in blob) + 12"  # behind "encrypted":"
    broker.psql(f"UPDATE queen.log_segments s SET blob = set_byte(blob, {at}, CASE get_byte(blob, {at}) WHEN 65 THEN 66 "
                "ELSE 65 END) FROM queen.log_partitions p JOIN queen.queues k ON k.id = p.queue_id "
                f"WHERE p.id = s.partition_id AND k.name = '{q}' AND s.base_offset = {offset}")


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("bad", [(0,), (1,), (0, 1, 3)])
def test_a_damaged_envelope_becomes_a_dead_letter_and_the_rest_is_delivered(key_pg_api, q, bad, auto):
    key_pg_api.broker.expect_error("event=payload.undecryptable", f"queue={q} ")
    encrypt(key_pg_api, q)
    for number in range(5):
        push_data(key_pg_api, q, number, transactionId=f"t{number}")
    for offset in bad:
        damage(key_pg_api.broker, q, offset)
    found = key_pg_api.pop(q, batch=10, autoAck=auto)
    assert tids(found) == [f"t{number}" for number in range(5) if number not in bad]
    assert data(found) == [number for number in range(5) if number not in bad]
    if not auto:
        key_pg_api.finish(found)
    assert key_pg_api.pop(q) is None
    rows = letters(key_pg_api.broker, q)
    assert [row[:2] for row in rows] == [(str(offset), f"t{offset}") for offset in bad]
    for (_, _, payload, error), offset in zip(rows, bad):
        assert ENVELOPE.match(payload.encode()) and error.startswith("undecryptable payload"), (payload, error)
        assert (True, payload.encode()) == stored.payloads(key_pg_api.broker, q)[offset]


def test_a_lane_of_nothing_but_damage_is_passed(key_pg_api, q):
    key_pg_api.broker.expect_error("event=payload.undecryptable", f"queue={q} ")
    encrypt(key_pg_api, q)
    push_data(key_pg_api, q, 0)
    push_data(key_pg_api, q, 1)
    damage(key_pg_api.broker, q, 0)
    damage(key_pg_api.broker, q, 1)
    assert key_pg_api.pop(q, batch=10) is None
    assert [row[0] for row in letters(key_pg_api.broker, q)] == ["0", "1"]
    push_data(key_pg_api, q, 2)
    found = key_pg_api.pop(q, batch=10)
    assert data(found) == [2] and found["messages"][0]["offset"] == 2


def test_damage_behind_the_last_good_message_is_the_head_of_the_next_batch(key_pg_api, q):
    key_pg_api.broker.expect_error("event=payload.undecryptable", f"queue={q} ")
    encrypt(key_pg_api, q)
    push_data(key_pg_api, q, 0)
    push_data(key_pg_api, q, 1)
    damage(key_pg_api.broker, q, 1)
    found = key_pg_api.pop(q, batch=10, leaseSeconds=600)
    assert data(found) == [0]
    assert letters(key_pg_api.broker, q) == []
    key_pg_api.finish(found)
    assert key_pg_api.pop(q) is None
    assert [row[0] for row in letters(key_pg_api.broker, q)] == ["1"]


def test_a_lost_key_makes_dead_letters_that_keep_the_envelope(own_broker, q):
    broker = own_broker("pg", QUEEN_ENCRYPTION_KEY=KEY)
    api = Api(broker.port)
    encrypt(api, q)
    push_data(api, q, "old 0", "old 1")
    broker.stop()
    broker.env = {"QUEEN_ENCRYPTION_KEY": OTHER}
    broker.expect_error("event=payload.undecryptable", f"queue={q} ")
    api = Api(broker.start().port, "h2")
    push_data(api, q, "new 2")
    assert data(api.pop(q, batch=10)) == ["new 2"]
    rows = letters(broker, q)
    assert [row[0] for row in rows] == ["0", "1"]
    assert [row[2].encode() for row in rows] == [payload for _, payload in stored.payloads(broker, q)[:2]]
    broker.stop()


def test_a_broker_without_a_key_answers_500_and_leaves_the_messages(own_broker, peer, q):
    holder = own_broker("pg", QUEEN_ENCRYPTION_KEY=KEY)
    keyless = peer(holder)
    keyless.expect_error("event=pop.no_key")
    encrypt(Api(holder.port), q)
    push_data(Api(holder.port), q, "for those with a key")
    for version in ("h1", "h2"):
        api = Api(keyless.port, version)
        # The lease is given back beside the answer: until then the queue is empty for the next one.
        reply = clock.eventually(lambda: next((r for r in [api.pop_reply(q, batch=10)] if r.status != 204), None), 10,
                                 "an answer about the message")
        assert reply.status == 500 and "encryption key" in reply.error and reply.json["requestId"]
    holding = Api(holder.port)
    assert data(clock.eventually(lambda: holding.pop(q, batch=10), 10, "the lease given back")) == ["for those with a key"]
    assert letters(holder, q) == []
    for broker in (keyless, holder):
        broker.stop()


def test_a_dead_letter_holds_the_envelope(key_pg_api, q):
    key_pg_api.configure(q, encryptionEnabled=True, retryLimit=0)
    push_data(key_pg_api, q, {"card": "4111111111111111"})
    message = key_pg_api.pop(q)["messages"][0]
    assert key_pg_api.ack(message, "failed")["dlq"] is True
    (_, _, payload, _), = letters(key_pg_api.broker, q)
    assert ENVELOPE.match(payload.encode()), payload


@pytest.mark.parametrize("variable, value", [("QUEEN_ENCRYPTION_KEY", "deadbeef"), ("QUEEN_ENCRYPTION_KEY", "zz" * 32),
                                             ("QUEEN_ENCRYPTION_OLD_KEYS", f"{KEY},deadbeef")])
def test_a_malformed_key_stops_the_start(tmp_path, variable, value):
    command = [str(executable()), "--set", "storage.use=storage_memory", "--set", "http.port=0"]
    env = {"PATH": "/usr/bin:/bin", "QUEEN_DATA_DIR": str(tmp_path / "data"), variable: value}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=30, check=False)
    assert done.returncode != 0
    assert variable in done.stderr
    for part in value.split(","):
        assert part not in done.stdout + done.stderr


def test_keys_are_never_printed(tmp_path):
    env = {"PATH": "/usr/bin:/bin", "QUEEN_DATA_DIR": str(tmp_path), "QUEEN_ENCRYPTION_KEY": KEY,
           "QUEEN_ENCRYPTION_OLD_KEYS": OTHER}
    done = subprocess.run([str(executable()), "--dump-config"], capture_output=True, text=True, env=env, timeout=30,
                          check=False)
    assert done.returncode == 0 and "encryption_aesgcm" in done.stdout, done.stderr
    assert KEY not in done.stdout + done.stderr and OTHER not in done.stdout + done.stderr


def test_the_log_holds_neither_keys_nor_payloads(key_pg_api, q):
    encrypt(key_pg_api, q)
    push_data(key_pg_api, q, "4111111111111111")
    assert data(key_pg_api.pop(q)) == ["4111111111111111"]
    log = key_pg_api.broker.log()
    assert "event=http.listening" in log and KEY not in log and "4111111111111111" not in log
