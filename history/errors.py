"""What goes wrong with a database, in a sentence."""

from __future__ import annotations

import re
import sqlite3

MOST_WORDS = 300

_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@\s]*@")


class HistoryError(Exception):
    """History cannot be read or written; the message is one line for people."""


class UnusableError(HistoryError):
    """Trying again will not help: the database is another program's, or of a newer version."""


class DamagedError(HistoryError):
    """The database file cannot be read as one."""


def sentence(error: BaseException, where: str) -> str:
    """One line about a driver's error: what it means, and where. Passwords are left out."""
    cause = getattr(error, "orig", None) or error
    text = str(cause)
    if isinstance(cause, sqlite3.Error | OSError):
        return f"{_sqlite(text, cause)} ({where})"
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(cause).__name__)
    return f"the database does not work: {hide_password(first)[:MOST_WORDS]} ({where})"


def _sqlite(text: str, cause: BaseException) -> str:
    lower = text.lower()
    if "full" in lower or "no space" in lower or "quota" in lower:
        return "the disk is full"
    if "readonly" in lower or "read-only" in lower or "permission" in lower:
        return "the file or its folder may not be written"
    if "unable to open" in lower:
        return "the file cannot be opened or made; is its folder there, and may it be written?"
    if "locked" in lower or "busy" in lower:
        return "another process holds the file"
    if is_damage(cause):
        return "the file is damaged"
    if "disk i/o" in lower:
        return "the disk answers with errors"
    return hide_password(text.splitlines()[0] if text else type(cause).__name__)[:MOST_WORDS]


def is_damage(error: BaseException) -> bool:
    """Does SQLite say that the file's content is broken?"""
    cause = getattr(error, "orig", None) or error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return (code & 0xFF) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return isinstance(cause, sqlite3.DatabaseError) and any(
        word in str(cause) for word in ("malformed", "not a database")
    )


def hide_password(text: str) -> str:
    """The same text with the password of any URL in it left out."""
    return _PASSWORD.sub(r"\1:***@", text)
