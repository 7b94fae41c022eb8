from __future__ import annotations

import pytest

from simulator.kube_store import Gone, Store


def pod(name: str, **labels: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "ml", "labels": labels}}


def test_each_change_has_a_newer_version_and_the_same_object_has_none() -> None:
    store = Store()
    first = store.put("pods", pod("a"))
    same = store.put("pods", pod("a"))
    changed = store.put("pods", pod("a", x="1"))
    assert first["metadata"]["resourceVersion"] == same["metadata"]["resourceVersion"]
    assert int(changed["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert changed["metadata"]["uid"] == first["metadata"]["uid"]


def test_what_goes_in_and_out_are_copies() -> None:
    store = Store()
    mine = pod("a")
    store.put("pods", mine)
    mine["metadata"]["name"] = "changed"  # type: ignore[index]
    theirs = store.get("pods", "a", "ml")
    assert theirs is not None
    theirs["metadata"]["name"] = "changed"
    again = store.get("pods", "a", "ml")
    assert again is not None
    assert again["metadata"]["name"] == "a"


def test_history_since_a_version() -> None:
    store = Store()
    store.put("pods", pod("a"))
    version = store.version
    store.put("pods", pod("a", x="1"))
    store.put("nodes", {"metadata": {"name": "n"}})
    store.remove("pods", "a", "ml")
    newest, changes = store.since("pods", version)
    assert [change.type for change in changes] == ["MODIFIED", "DELETED"]
    assert newest == store.version
    assert store.since("pods", newest)[1] == []


def test_compacted_history_is_gone() -> None:
    store = Store(history=3)
    start = store.version
    for number in range(5):
        store.put("pods", pod(f"p{number}"))
    with pytest.raises(Gone):
        store.since("pods", start)
    store.compact()
    with pytest.raises(Gone):
        store.since("pods", store.version - 1)
    assert store.since("pods", store.version) == (store.version, [])


def test_a_snapshot_stays_as_it_was() -> None:
    store = Store()
    store.put("pods", pod("a"))
    version, entries = store.snapshot("pods")
    store.put("pods", pod("b"))
    assert store.snapshot("pods", version) == (version, entries)
    assert len(store.snapshot("pods")[1]) == 2
    with pytest.raises(Gone):
        store.snapshot("pods", 1)


def test_replace_all_leaves_what_is_the_same_alone() -> None:
    store = Store()
    store.replace_all({"pods": [pod("a"), pod("b")]})
    version = store.version
    store.replace_all({"pods": [pod("a"), pod("c")]})
    assert [(c.type, c.entry.key[1]) for c in store.since("pods", version)[1]] == [
        ("ADDED", "c"),
        ("DELETED", "b"),
    ]


def test_listeners_hear_of_changes_until_they_leave() -> None:
    store = Store()
    heard: list[str] = []
    leave = store.listen(heard.append)
    store.put("pods", pod("a"))
    store.put("pods", pod("a"))
    leave()
    store.put("pods", pod("b"))
    assert heard == ["pods"]
