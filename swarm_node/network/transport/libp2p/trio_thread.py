"""A trio loop in a thread of its own, called from asyncio: py-libp2p is written for trio, the node
for asyncio.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import trio

T = TypeVar("T")


class TrioStopped(OSError):
    """The trio loop has ended, so nothing more can be done in it."""


class TrioThread:
    """A thread with a trio loop, for a library that wants one; called from asyncio."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._ended: asyncio.Future[str] = self._loop.create_future()
        self._calls: set[asyncio.Future[Any]] = set()
        self._nursery: trio.Nursery | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    async def start(self) -> None:
        threading.Thread(target=self._run, name="trio", daemon=True).start()
        await self._ready.wait()

    async def call(self, work: Callable[..., Awaitable[T]], *args: object) -> T:
        """Run `work(*args)` in trio; its result or exception. Cancelling the call cancels the work.

        TrioStopped if the loop ends meanwhile.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        scope = trio.CancelScope()

        async def task() -> None:
            with scope:
                try:
                    result = await work(*args)
                except Exception as error:  # noqa: BLE001  whatever it is, the caller is told
                    self._post(_fail, future, error)
                else:
                    self._post(_succeed, future, result)

        if not self.begin(task):
            raise TrioStopped("the network library has stopped")
        self._calls.add(future)
        try:
            return await future
        finally:
            self._calls.discard(future)
            if future.cancelled():
                self._submit(scope.cancel)

    def begin(self, work: Callable[..., Awaitable[None]], *args: object) -> bool:
        """Run `work(*args)` in trio beside everything else; what it raises ends the loop. False:
        the loop has ended.
        """
        if (nursery := self._nursery) is None:
            return False

        def start() -> None:
            with suppress(RuntimeError):  # the nursery is closing
                nursery.start_soon(work, *args)

        return self._submit(start)

    async def run_in_asyncio(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does this work as a task in asyncio, and waits in trio until it is done."""
        done = trio.Event()

        def begin() -> None:
            self._loop.create_task(work()).add_done_callback(lambda _: self._submit(done.set))

        self._post(begin)
        await done.wait()

    async def wait_ended(self) -> str:
        """Why the loop ended; "" if it was stopped."""
        return await asyncio.shield(self._ended)

    async def stop(self) -> None:
        """Cancels what runs in the loop, and waits for its end."""
        if self._nursery is not None and self._submit(self._nursery.cancel_scope.cancel):
            await self.wait_ended()

    def _submit(self, work: Callable[[], object]) -> bool:
        """Runs `work` in trio's thread. False: the loop has ended, or not begun."""
        try:
            if self._token is not None:
                self._token.run_sync_soon(work)
        except trio.RunFinishedError:
            return False
        return self._token is not None

    def _post(self, work: Callable[..., object], *args: object) -> None:
        """Runs `work` in asyncio's thread."""
        with suppress(RuntimeError):  # the asyncio loop has ended first
            self._loop.call_soon_threadsafe(work, *args)

    def _run(self) -> None:
        reason = ""
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001  a bug of the library must be seen by who supervises it
            reason = f"{type(error).__name__}: {error}"
        self._post(self._end, reason)

    async def _main(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self._token = trio.lowlevel.current_trio_token()
            self._post(self._ready.set)
            await trio.sleep_forever()

    def _end(self, reason: str) -> None:
        _succeed(self._ended, reason)
        for future in self._calls:
            _fail(future, TrioStopped(reason or "stopped"))


def _succeed(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
