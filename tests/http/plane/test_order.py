# SPDX-License-Identifier: Apache-2.0
"""Order and completeness under concurrency: many producers, one lane, consumers that come and go."""
import random

from lib.api import pop_path


def collect(messages, seen):
    """Append deliveries of one lane, checking that offsets run on without a gap."""
    for message in messages:
        assert message["offset"] == len(seen)
        seen.append(message["transactionId"])


def in_producer_order(seen, producers, each):
    assert len(seen) == len(set(seen)) == producers * each
    for producer in range(producers):
        mine = [tid for tid in seen if tid.startswith(f"{producer}:")]
        assert mine == [f"{producer}:{number}" for number in range(each)]


def test_many_producers_one_lane(api, q):
    producers, each = 16, 25
    seen = []
    for number in range(each):
        bodies = [{"items": [{"queue": q, "transactionId": f"{producer}:{number}", "payload": 1}]}
                  for producer in range(producers)]
        calls = [api.start("POST", "/api/v1/push", body) for body in bodies]
        reading = api.start("GET", pop_path(q, "Default", autoAck=True, batch=50))
        for call in calls:
            reply = call.wait()
            assert reply.status == 201 and reply.json[0]["status"] == "queued", reply
        collect((api.got(reading) or {"messages": []})["messages"], seen)
    while popped := api.pop(q, "Default", autoAck=True, batch=50):
        collect(popped["messages"], seen)
    in_producer_order(seen, producers, each)


def test_bodies_of_many_lanes_keep_their_order(api, q):
    generator = random.Random(3)
    sent = {f"p{lane}": [] for lane in range(7)}
    calls = []
    for body in range(30):
        items = []
        for number in range(20):
            lane = generator.choice(list(sent))
            sent[lane].append(f"{body}:{number}")
            items.append({"queue": q, "partition": lane, "transactionId": f"{body}:{number}", "payload": 1})
        calls.append(api.start("POST", "/api/v1/push", {"items": items}))
        if body % 3 == 2:
            assert all(call.wait().status == 201 for call in calls)
            calls = []
    for lane, expected in sent.items():
        got = api.pop(q, lane, batch=1000)["messages"]
        assert [message["offset"] for message in got] == list(range(len(expected)))
        ids = [message["transactionId"] for message in got]
        assert sorted(ids) == sorted(expected)
        for body in range(30):
            assert [tid for tid in ids if tid.split(":")[0] == str(body)] == \
                [tid for tid in expected if tid.split(":")[0] == str(body)]


def test_a_random_consumer_loses_nothing(api, q):
    """Completed prefixes, retries and dead letters at random: every message ends exactly once, lanes stay in order."""
    generator = random.Random(5)
    api.configure(q, retryLimit=1000)
    total = 120
    api.push(*[{"queue": q, "partition": f"p{number % 3}", "transactionId": str(number), "payload": number}
               for number in range(total)])
    done = {f"p{lane}": [] for lane in range(3)}
    dead = set()
    rounds = 0
    while popped := api.pop(q, batch=generator.randint(1, 12)):
        rounds += 1
        assert rounds < 600
        messages = popped["messages"]
        lane = done[popped["partition"]]
        assert messages[0]["offset"] == len(lane), "redelivery starts at the first message that is not done"
        cut = generator.randint(0, len(messages))
        items = [(message, "completed") for message in messages[:cut]]
        if cut < len(messages):
            items.append((messages[cut], generator.choice(["failed", "retry", "dlq"])))
        results = api.acks([{"transactionId": message["transactionId"], "partitionId": message["partitionId"],
                             "leaseId": message["leaseId"], "status": status} for message, status in items])
        lane += [message["transactionId"] for message in messages[:cut]]
        if results[-1]["dlq"]:
            dead.add(messages[cut]["transactionId"])
            lane.append(messages[cut]["transactionId"])
    for number, lane in enumerate(done.values()):
        assert lane == [str(tid) for tid in range(number, total, 3)]
    assert sum(item["stats"]["deadLetter"] for item in api.queue(q)["partitions"]) == len(dead)
