"""Ends all processes within seconds when one of them ends, with the rank and the last error of that one.

Every process writes heartbeats to the store (`alive/RANK`, a count), and watches the next process. A process that ends by an error writes `ended`
first; a killed one stops counting. When a process learns of an end, it raises an error where it waits for the others. If it does not wait, or cannot
be woken, it ends a little later.

A process that computes or sleeps continues to count, so the others wait for slow processes up to the timeout of the group. A suspended process
(SIGSTOP, a debugger) stops counting.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

BEAT = 1.0  # seconds between two heartbeats
SILENT = 15.0  # seconds without a heartbeat after which a process counts as ended
GRACE = 8.0  # seconds between the detected end of another process and the end of this one
EXIT = 1


class Watch:
    """The thread of one process. holds_store: the rank with which the store ends. beats: whether there are signs of life; else processes only say by
    which error they end."""

    def __init__(self, store: Any, rank: int, size: int, holds_store: int | None, beats: bool = True) -> None:
        self._beats = beats
        self._store, self._rank, self._size, self._holds_store = store, rank, size, holds_store
        self._stopped = threading.Event()
        self._news = ""
        self._lock = threading.Lock()  # the store's client serves one call at a time
        self._hook: Callable[..., Any] | None = None
        self._set("alive/" + str(rank), "0")
        self._thread = threading.Thread(target=self._run, name="shadergrad-watch", daemon=True)

    def start(self) -> None:
        self._hook = sys.excepthook
        sys.excepthook = self._on_error
        if self._beats:
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._hook is not None and sys.excepthook == self._on_error:
            sys.excepthook = self._hook
        if self._beats and threading.current_thread() is not self._thread:
            self._thread.join(2 * BEAT)

    def has_news(self) -> bool:
        """Whether another process has ended, so that waiting for it is useless."""
        return bool(self._news)

    def say_done(self) -> None:
        """Report that this process leaves without an error."""
        with suppress(RuntimeError):
            self._set(f"alive/{self._rank}", "done")

    def see_off(self) -> None:
        """Called at the end of the process that holds the store. Returns when all others have left, or know that the store ends."""
        until = time.monotonic() + (3 * BEAT if self._news else GRACE)
        with suppress(RuntimeError):
            self._set("closing", "1")
            others = {rank for rank in range(self._size) if rank != self._rank}
            while others and time.monotonic() < until:
                others = {r for r in others if not self._read(f"left/{r}") and self._read(f"alive/{r}") != "done"}
                time.sleep(0.02 if others else 0.0)

    def say_ended(self, why: str) -> None:
        """Report that this process ends by an error. The other processes show the first report."""
        with suppress(RuntimeError), self._lock:
            self._store.compare_set("ended", "", f"rank {self._rank}: {why}")

    def explain(self, error: BaseException) -> str:
        """The known reason for the failure of an operation, after a pause in which the failed process may still report."""
        news = self._news
        until = time.monotonic() + 2 * BEAT
        while not news and time.monotonic() < until:
            try:
                news = self._read("ended")
            except RuntimeError:
                news = self._store_is_gone()
            time.sleep(0.05)
        own = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if news:
            return f"[distributed] rank {self._rank} stops, for another process has ended: {news}\n  ({own})"
        if "imed out" in own or "imeout" in own:
            return f"[distributed] rank {self._rank} waited too long for the other processes: {own}"
        return (
            f"[distributed] rank {self._rank} stops, for another process has ended without a word (killed, or out of memory?), or "
            f"left: {own}"
        )

    # -- within

    def _set(self, key: str, value: str) -> None:
        with self._lock:
            self._store.set(key, value)

    def _read(self, key: str) -> str:
        with self._lock:
            return self._store.get(key).decode() if self._store.check([key]) else ""

    def _store_is_gone(self) -> str:
        if self._holds_store is None:
            return "the launcher, which holds the store, has ended"
        return f"rank {self._holds_store}: it ended without a word (killed?), and the store with it"

    def _run(self) -> None:
        other = (self._rank + 1) % self._size
        seen, since, count = "", time.monotonic(), 0
        while not self._stopped.wait(BEAT):
            count += 1
            try:
                self._set(f"alive/{self._rank}", str(count))
                news = self._read("ended")
                now = self._read(f"alive/{other}")
                closing = bool(self._read("closing"))
                if closing:
                    self._set(f"left/{self._rank}", "1")
            except RuntimeError:
                if self._stopped.is_set():
                    return
                self._end(self._store_is_gone())
                return
            if now != seen:
                seen, since = now, time.monotonic()
            if not news and seen != "done" and time.monotonic() - since > SILENT:
                news = f"rank {other}: no sign of life for {SILENT:g} s (killed, stopped, or its machine is lost)"
                with suppress(RuntimeError), self._lock:
                    self._store.compare_set("ended", "", news)
            if news and not news.startswith(f"rank {self._rank}:"):
                self._end(news)
                return
            if closing:
                return  # in good order: without a store nobody can be watched

    def _end(self, news: str) -> None:
        """Wait until the error can be raised where this process waits, then end it."""
        self._news = news
        if self._stopped.wait(GRACE):
            return
        print(
            f"[distributed] rank {self._rank} ends, for another process has ended: {news}", file=sys.stderr, flush=True
        )
        os._exit(EXIT)

    def _on_error(self, kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        text = str(error).strip().splitlines()
        self.say_ended(f"{kind.__name__}{': ' + text[0] if text else ''}")
        assert self._hook is not None
        self._hook(kind, error, where)
