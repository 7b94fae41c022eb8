"""The watch as a pure generator: what the API says, in a tuple of changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from collectors.decoding import Decoded, decode_kubernetes
from collectors.fetching import FetchError
from collectors.kubernetes_store import LONGEST_PAUSE, Store
from collectors.kubernetes_watch import (
    Change,
    Ended,
    Expired,
    Failed,
    Listed,
    Marked,
    Opened,
    Put,
    Removed,
    changes,
    read_line,
)
from collectors.sources import Part
from fleet.observation import ObjectMeta, Pod


def pod(name: str, version: int, **fields: object) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ml", "resourceVersion": str(version)}
    return {"metadata": meta, **fields}


def line(kind: str, obj: object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def error(code: int) -> bytes:
    return line("ERROR", {"kind": "Status", "code": code, "message": "said so"})


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def listed(version: int, *rows: dict[str, Any], **more: object) -> Part:
    body = {"metadata": {"resourceVersion": str(version), **more}, "items": rows}
    return Part(decoded=decode_kubernetes("pods", json.dumps(body).encode()))


class Fake:
    """Answers from a script: parts for lists, lists of lines (or an error) for watches."""

    part = "pods"

    def __init__(self, *script: object) -> None:
        self.script = list(script)
        self.asked: list[str] = []

    def list(self, fresh: bool) -> Part:
        self.asked.append("fresh list" if fresh else "list")
        answer = self.script.pop(0)
        assert isinstance(answer, Part)
        return answer

    def watch(self, version: str) -> Iterator[bytes]:
        self.asked.append(f"watch {version}")
        answer = self.script.pop(0)
        if isinstance(answer, FetchError):
            raise answer
        yield b""
        assert isinstance(answer, list)
        for item in answer:
            if isinstance(item, FetchError):
                raise item
            yield item


def row(name: str, **fields: object) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="ml"), **fields)


def put(name: str, version: int) -> Put:
    return Put(("ml", name), Decoded(rows=(row(name),)), str(version))


# --- one round --------------------------------------------------------------------------------


def test_a_list_and_a_watch() -> None:
    part = listed(7, pod("a", 3))
    lines = [
        line("ADDED", pod("b", 8)),
        line("MODIFIED", pod("a", 9)),
        line("DELETED", pod("b", 10)),
        bookmark(12),
    ]
    asking = Fake(part, lines)
    assert tuple(changes(asking, None)) == (
        Listed(part.decoded, "7"),
        Opened(),
        put("b", 8),
        put("a", 9),
        Removed(("ml", "b"), "10"),
        Marked("12"),
        Ended(),
    )
    assert asking.asked == ["list", "watch 7"]


def test_it_goes_on_from_a_version_without_a_list() -> None:
    asking = Fake([])
    assert tuple(changes(asking, "12")) == (Opened(), Ended())
    assert asking.asked == ["watch 12"]


@pytest.mark.parametrize("how", ["status", "event"])
def test_a_version_that_is_too_old(how: str) -> None:
    gone = FetchError("not_found", "HTTP 410", status=410)
    asking = Fake(gone if how == "status" else [error(410), line("ADDED", pod("lost", 9))])
    *_, last = changes(asking, "1")
    assert isinstance(last, Expired)


def test_a_list_that_fails() -> None:
    asking = Fake(Part(reason="rate_limited", detail="HTTP 429", retry_after=3.0))
    (failed,) = changes(asking, None, fresh=True)
    assert failed == Failed(reason="rate_limited", detail="HTTP 429", retry_after=3.0, relist=True)
    assert asking.asked == ["fresh list"]


def test_a_list_that_broke_off_is_none() -> None:
    from fleet.observation import Truncation

    decoded = Decoded(
        rows=(row("a"),), reason="truncated", truncation=Truncation(part="pods", total=-1, rows=1)
    )
    (failed,) = changes(Fake(Part(decoded=decoded)), None)
    assert isinstance(failed, Failed)
    assert (failed.reason, failed.relist) == ("truncated", True)


def test_a_watch_that_breaks_goes_on_where_it_was() -> None:
    asking = Fake([line("ADDED", pod("a", 5)), FetchError("timed_out", "silence")])
    assert tuple(changes(asking, "4")) == (
        Opened(),
        put("a", 5),
        Failed(reason="timed_out", detail="silence"),
    )


@pytest.mark.parametrize(
    ("text", "reason", "relist"),
    [
        (error(500), "server_error", False),
        (error(429), "rate_limited", False),
        (error(403), "forbidden", True),
        (line("ERROR", {"kind": "Status", "code": "x"}), "server_error", False),
        (b"<html>", "malformed", True),
        (b'{"type": "ADDED"}', "malformed", True),
        (b'{"type": "ADDED", "object": null}', "malformed", True),
        (line("ADDED", {"metadata": {"name": "a"}}), "malformed", True),
        (line("ADDED", {"metadata": {"resourceVersion": "3"}}), "malformed", True),
        (line("HELLO", pod("a", 3)), "malformed", True),
        (line("BOOKMARK", {}), "malformed", True),
        (b'{"type": "ADDED", "object": ' + b"[" * 100_000, "malformed", True),
        (b'{"type": "ADDED", "object": {"metadata": {"name": "\xff"}}}', "malformed", True),
    ],
)
def test_lines_that_are_no_change(text: bytes, reason: str, relist: bool) -> None:
    found = read_line("pods", text)
    assert isinstance(found, Failed)
    assert (found.reason, found.relist) == (reason, relist)


def test_an_object_with_a_wrong_field_is_kept_and_noted() -> None:
    found = read_line("pods", line("ADDED", pod("a", 3, spec={"nodeName": 5})))
    assert isinstance(found, Put)
    assert found.decoded.rows
    assert found.decoded.malformed


def test_private_values_are_dropped_in_a_watch_too() -> None:
    env = [{"name": "PASSWORD", "value": "s3cret"}, {"name": "TPU_NAME", "value": "t"}]
    found = read_line("pods", line("ADDED", pod("a", 3, spec={"containers": [{"env": env}]})))
    assert "s3cret" not in repr(found)
    assert "TPU_NAME" in repr(found)


# --- the store --------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def store_of(clock: Clock, *happened: Change, **options: Any) -> Store:
    store = Store("pods", grace=10.0, clock=clock, **options)
    for change in happened:
        store.apply(change)
    return store


def names(store: Store) -> list[str | None]:
    part = store.part()
    assert part.decoded is not None
    return [item.metadata.name for item in part.decoded.rows or ()]


def rows(store: Store) -> Any:
    part = store.part()
    assert part.decoded is not None
    return part.decoded.rows


LIST = Listed(Decoded(rows=(row("b"), row("a"))), "7")


def test_nothing_is_known_before_the_first_list() -> None:
    store = store_of(Clock())
    assert not store.part().answered
    assert store.part().reason == "missing"
    store.apply(Failed(reason="forbidden", detail="no", relist=True))
    assert (store.part().reason, store.synced) == ("forbidden", False)
    assert store.part().decoded is None


def test_rows_are_kept_up() -> None:
    store = store_of(Clock(), LIST, Opened())
    assert names(store) == ["a", "b"]
    store.apply(put("c", 8))
    store.apply(Removed(("ml", "a"), "9"))
    assert names(store) == ["b", "c"]
    assert store.version == "9"
    store.apply(Removed(("ml", "never there"), "10"))
    assert store.version == "10"


def test_the_tuple_stays_the_same_while_nothing_changed() -> None:
    store = store_of(Clock(), LIST, Opened())
    first = rows(store)
    for change in (Marked("9"), Ended(), Opened(), put("a", 10), LIST):
        store.apply(change)
        assert rows(store) is first
    store.apply(Put(("ml", "a"), Decoded(rows=(row("a", status=None, spec=None),)), "11"))
    assert rows(store) is first
    store.apply(put("c", 12))
    assert rows(store) is not first
    assert rows(store)[0] is first[0]


def test_deletions_are_seen_across_a_new_list() -> None:
    store = store_of(Clock(), LIST, Opened(), put("c", 8), Expired())
    assert (store.version, store.fresh) == (None, True)
    before = {item.metadata.name: item for item in rows(store)}
    store.apply(Listed(Decoded(rows=(row("a"), row("d"))), "20"))
    assert names(store) == ["a", "d"]
    assert rows(store)[0] is before["a"]
    assert (store.version, store.fresh) == ("20", False)


def test_rows_outlive_a_watch_by_the_time_of_a_poll() -> None:
    clock = Clock()
    store = store_of(clock, LIST, Opened())
    clock.now = 60.0  # silent, and that is no failure
    assert store.part().answered
    store.apply(Marked("8"))
    store.apply(Failed(reason="refused", detail="nobody there"))
    clock.now = 69.0
    assert store.part().answered
    clock.now = 71.0
    assert (store.part().reason, store.part().detail) == ("refused", "nobody there")
    assert store.part().decoded is None
    store.apply(Opened())
    assert names(store) == ["a", "b"]


def test_notes_come_and_go_with_their_rows() -> None:
    bad = Decoded(rows=(row("a"),), reason="malformed", malformed=("pods: row 0: odd",))
    store = store_of(Clock(), LIST, Opened(), Put(("ml", "a"), bad, "8"))
    assert store.part().problem == ("malformed", "pods: row 0: odd")
    store.apply(put("a", 9))
    assert store.part().problem is None
    store.apply(Put(("ml", "a"), bad, "10"))
    store.apply(Removed(("ml", "a"), "11"))
    assert store.part().problem is None


def test_bounds() -> None:
    def age(item: Pod) -> float:
        return float(item.metadata.name[1:]) if item.metadata and item.metadata.name else 0.0

    clock = Clock()
    store = store_of(clock, LIST, most=20, newest_first=age, keep=lambda item: item != row("p7"))
    store.apply(Listed(Decoded(rows=tuple(row(f"p{n}") for n in range(100))), "7"))
    assert sorted(names(store), key=lambda name: int((name or "")[1:]))[0] == "p80"
    for number in range(100, 1000):
        store.apply(put(f"p{number}", number))
        assert len(store._rows) <= 22
    assert "p999" in names(store)


def test_what_is_not_wanted_any_more_goes() -> None:
    store = store_of(Clock(), LIST, keep=lambda item: item.spec is None)
    from fleet.observation import PodSpec

    store.apply(Put(("ml", "a"), Decoded(rows=(row("a", spec=PodSpec()),)), "8"))
    assert names(store) == ["b"]


# --- how soon again ---------------------------------------------------------------------------


def pauses(store: Store, clock: Clock, *rounds: tuple[Change, ...]) -> list[float]:
    found = []
    for happened in rounds:
        for change in happened:
            store.apply(change)
        found.append(store.pause(0.5))
        clock.now += found[-1]
    return found


REFUSED = Failed(reason="refused")


def test_failures_slow_it_down() -> None:
    clock = Clock()
    found = pauses(store_of(clock), clock, *[(REFUSED,)] * 9)
    assert found == [1, 2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]


@pytest.mark.parametrize(
    "last", [Expired(), Ended(), Failed(reason="unreachable"), Failed(reason="malformed")]
)
def test_a_watch_that_is_taken_and_dies_at_once_does_not_spin(last: Change) -> None:
    clock = Clock()
    again = (LIST, Opened(), last) if isinstance(last, Expired) else (Opened(), last)
    found = pauses(store_of(clock, LIST), clock, *[again] * 6)
    assert found == [1, 2, 4, 8, 16, LONGEST_PAUSE]


def test_a_watch_that_lived_is_followed_at_once() -> None:
    clock = Clock()
    store = store_of(clock, LIST, REFUSED, REFUSED, REFUSED, Opened())
    clock.now += 60.0
    store.apply(Ended())
    assert store.pause(0.5) == 0.1
    store.apply(Opened())
    clock.now += 0.1
    store.apply(put("x", 9))
    store.apply(Ended())
    assert store.pause(0.5) == 0.1
    store.apply(Opened())
    clock.now += 60.0
    store.apply(Expired())
    assert store.pause(0.5) == 1.0


def test_the_server_says_when() -> None:
    store = store_of(Clock(), Failed(reason="rate_limited", retry_after=17.0))
    assert store.pause(0.0) == 17.0


def test_jitter() -> None:
    store = store_of(Clock(), REFUSED)
    assert store.pause(0.0) < store.pause(0.5) < store.pause(1.0)
