"""Measure a block, a function of any kind, or the steps of an iterable."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from assay.errors import InstrumentError
from assay.timing.recording import Entry, Span
from assay.timing.sampler import Sampler

__all__ = ["Measuring", "TimedIterable"]

Function = TypeVar("Function", bound=Callable[..., Any])
T = TypeVar("T")


class Source(Protocol):
    """A stopwatch, as it is seen from here."""

    def _active_sampler(self) -> Sampler | None:
        """What takes its intervals; None while it is off. Asked at each interval anew."""


class Measuring:
    """What ``Stopwatch.measure(name)`` returns: a context manager and a decorator.

    As a decorator it knows how a function spends its time:

    - a plain function: from the call to the return;
    - a coroutine function: from its first step to its end, including what it awaits. Several may be
      on their way at once;
    - a generator function: only the time within it, not that in which it is suspended at a
      ``yield``; one sample for each run, at its end;
    - an asynchronous generator function: as a generator, including what it awaits.

    A sample that an exception ends is counted and marked. Within itself only the outermost call on
    a thread is measured. Times on the device are taken of all but the two kinds of generators.
    """

    __slots__ = ("_name", "_source")

    def __init__(self, name: str, source: Source) -> None:
        self._name = name
        self._source = source

    def __enter__(self) -> None:
        sampler = self._source._active_sampler()
        if sampler is not None:
            sampler.enter(self._name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sampler = self._source._active_sampler()
        if sampler is not None:
            failed = kind is not None and not issubclass(kind, GeneratorExit)
            sampler.leave(self._name, failed=failed)

    def __call__(self, function: Function) -> Function:
        """The function, measured at each call.

        Raises:
            InstrumentError: it is a class or no function at all.
        """
        wrapped: Any
        if isinstance(function, (staticmethod, classmethod)):
            wrapped = type(function)(self(function.__func__))
            return wrapped  # type: ignore[no-any-return]
        if inspect.isclass(function) or not callable(function):
            raise InstrumentError(
                f"measure({self._name!r}) decorates functions, not {function!r}. For the steps of "
                f"an iterable use measure({self._name!r}).around(iterable)."
            )
        if _is(inspect.iscoroutinefunction, function):
            wrapped = _coroutine(function, self._name, self._source)
        elif _is(inspect.isasyncgenfunction, function):
            wrapped = _async_generator(function, self._name, self._source)
        elif _is(inspect.isgeneratorfunction, function):
            wrapped = _generator(function, self._name, self._source)
        else:
            wrapped = _plain(function, self._name, self._source)
        return wrapped  # type: ignore[no-any-return]

    def around(self, iterable: Iterable[T]) -> TimedIterable[T]:
        """The iterable, with one sample for each item: the time to get it."""
        return TimedIterable(iterable, self)


class TimedIterable(Generic[T]):
    """An iterable whose steps are measured. It may be gone through as often as its original."""

    def __init__(self, iterable: Iterable[T], measuring: Measuring) -> None:
        self._iterable = iterable
        self._measuring = measuring

    def __iter__(self) -> Iterator[T]:
        iterator = iter(self._iterable)
        name, source = self._measuring._name, self._measuring._source
        while True:
            pieces = _Pieces(name, source._active_sampler())
            try:
                with pieces:
                    item = next(iterator)
            except StopIteration:
                return  # that there is no more is not an item
            except BaseException:
                pieces.finish(failed=True)
                raise
            pieces.finish(failed=False)
            yield item

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]


class _Pieces:
    """An interval in pieces, counted as one sample at its end. One piece is one ``with`` block."""

    def __init__(self, name: str, sampler: Sampler | None) -> None:
        self._name = name
        self._sampler = sampler
        self._elapsed_ns: int | None = None  # None: nothing of it was to be measured
        self._entry: Entry | None = None

    def __enter__(self) -> None:
        self._entry = None if self._sampler is None else self._sampler.open(self._name)

    def __exit__(self, *_: object) -> None:
        if self._sampler is not None and self._entry is not None:
            self._add(self._sampler.close_piece(self._entry))

    def _add(self, elapsed_ns: int) -> None:
        self._elapsed_ns = (self._elapsed_ns or 0) + elapsed_ns

    def finish(self, *, failed: bool) -> None:
        """Count the sum of the pieces."""
        if self._sampler is not None and self._elapsed_ns is not None:
            self._sampler.add(self._name, self._elapsed_ns, failed=failed)


class _AwaitedPieces(_Pieces):
    """Pieces in which other tasks of the same thread may run, and be measured."""

    _span: Span | None = None

    def __enter__(self) -> None:
        self._span = None if self._sampler is None else self._sampler.start_span(self._name)

    def __exit__(self, *_: object) -> None:
        if self._sampler is not None and self._span is not None:
            self._add(self._sampler.end_span_piece(self._name, self._span))


def _is(kind: Callable[[object], bool], function: Callable[..., Any]) -> bool:
    """Whether the function, or the ``__call__`` of an object, is of a kind."""
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004


def _plain(function: Callable[..., Any], name: str, source: Source) -> Callable[..., Any]:
    @functools.wraps(function)
    def measured(*args: Any, **kwargs: Any) -> Any:
        sampler = source._active_sampler()
        if sampler is None:
            return function(*args, **kwargs)
        sampler.enter(name)
        try:
            result = function(*args, **kwargs)
        except BaseException:
            sampler.leave(name, failed=True)
            raise
        sampler.leave(name, failed=False)
        return result

    return measured


def _coroutine(function: Callable[..., Any], name: str, source: Source) -> Callable[..., Any]:
    @functools.wraps(function)
    async def measured(*args: Any, **kwargs: Any) -> Any:
        sampler = source._active_sampler()
        span = None if sampler is None else sampler.start_span(name)
        if sampler is None or span is None:
            return await function(*args, **kwargs)
        try:
            result = await function(*args, **kwargs)
        except BaseException:
            sampler.end_span(name, span, failed=True)
            raise
        sampler.end_span(name, span, failed=False)
        return result

    return measured


def _generator(function: Callable[..., Any], name: str, source: Source) -> Callable[..., Any]:
    @functools.wraps(function)
    def measured(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        pieces = _Pieces(name, source._active_sampler())
        advance: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with pieces:
                    item = advance()
            except StopIteration as stop:
                pieces.finish(failed=False)
                return stop.value
            except BaseException:
                pieces.finish(failed=True)
                raise
            try:
                sent = yield item
            except GeneratorExit:
                with pieces:
                    generator.close()
                pieces.finish(failed=False)
                raise
            except BaseException as error:  # noqa: BLE001  passed on to the generator
                advance = functools.partial(generator.throw, error)
            else:
                advance = functools.partial(generator.send, sent)

    return measured


def _async_generator(function: Callable[..., Any], name: str, source: Source) -> Callable[..., Any]:
    @functools.wraps(function)
    async def measured(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        pieces = _AwaitedPieces(name, source._active_sampler())
        advance: Callable[[], Any] = generator.__anext__
        while True:
            try:
                with pieces:
                    item = await advance()
            except StopAsyncIteration:
                pieces.finish(failed=False)
                return
            except BaseException:
                pieces.finish(failed=True)
                raise
            try:
                sent = yield item
            except GeneratorExit:
                with pieces:
                    await generator.aclose()
                pieces.finish(failed=False)
                raise
            except BaseException as error:  # noqa: BLE001  passed on to the generator
                advance = functools.partial(generator.athrow, error)
            else:
                advance = functools.partial(generator.asend, sent)

    return measured
