"""A trio loop in a thread of its own, called from asyncio: py-libp2p is written for trio, the node for asyncio."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
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
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[str] = self._loop.create_future()
        self._calls: set[asyncio.Future[Any]] = set()
        self._nursery: trio.Nursery | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(target=self._run, name="trio", daemon=True)

    async def start(self) -> None:
        self._thread.start()
        await self._ready

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

        if not self._submit(task):
            raise TrioStopped("the network library has stopped")
        self._calls.add(future)
        try:
            return await future
        finally:
            self._calls.discard(future)
            if future.cancelled():
                self._submit_sync(scope.cancel)

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        """From trio: run `work()` beside everything else. An exception of it ends the loop."""
        assert self._nursery is not None
        self._nursery.start_soon(work)

    def post(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Run `work(*args)` in trio some time; it must not raise."""
        self._submit(lambda: work(*args))

    def run_in_asyncio(self, work: Callable[[], Any], done: trio.Event) -> None:
        """From trio: run the coroutine `work()` as a task in asyncio, then set `done`."""

        def begin() -> None:
            task = self._loop.create_task(work())
            task.add_done_callback(lambda _: self._submit_sync(done.set))

        self._post(begin)

    async def wait_ended(self) -> str:
        """Why the loop ended; "" if it was stopped."""
        return await asyncio.shield(self._ended)

    async def stop(self) -> None:
        """Cancels what runs in it, and waits for its end."""
        nursery = self._nursery
        if nursery is not None and self._submit_sync(nursery.cancel_scope.cancel):
            await self.wait_ended()

    def _submit(self, task: Callable[[], Awaitable[None]]) -> bool:
        nursery = self._nursery
        return nursery is not None and self._submit_sync(lambda: _start(nursery, task))

    def _submit_sync(self, work: Callable[[], object]) -> bool:
        if self._token is None:
            return False
        try:
            self._token.run_sync_soon(work)
        except trio.RunFinishedError:
            return False
        return True

    def _post(self, work: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # asyncio has ended before us
            self._loop.call_soon_threadsafe(work, *args)

    def _run(self) -> None:
        reason = ""
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001  a bug of the library must be seen by who supervises it
            reason = f"{type(error).__name__}: {error}"
        self._post(self._end, reason)

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._token = trio.lowlevel.current_trio_token()
            self._post(_succeed, self._ready, None)
            await trio.sleep_forever()

    def _end(self, reason: str) -> None:
        _succeed(self._ended, reason)
        for future in self._calls:
            _fail(future, TrioStopped(reason or "stopped"))


def _start(nursery: trio.Nursery, task: Callable[[], Awaitable[None]]) -> None:
    with suppress(RuntimeError):  # the nursery is closing
        nursery.start_soon(task)


def _succeed(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
