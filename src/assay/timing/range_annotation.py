"""A range around a block or a function of any kind, closed however that ends."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Protocol, TypeVar

from assay.errors import InstrumentError

__all__ = ["RangeAnnotation", "RangeStack"]

Function = TypeVar("Function", bound=Callable[..., Any])


class RangeStack(Protocol):
    """The open ranges of the calling thread; while ranges are off nothing happens."""

    def open_range(self, name: str) -> None:
        """Open a range."""

    def close_range(self, name: str, *, failing: bool) -> None:
        """Close what was opened last; no complaint while an exception is on its way."""


class RangeAnnotation:
    """What ``NVTXRangeWrapper().annotate(name)`` returns: a context manager and a decorator.

    A range lies on the stack of its thread, on which others come and go while a function is
    suspended. A coroutine or generator therefore has one range for each stretch that it runs, and
    none in between. A ``with`` block should not hold an ``await`` or a ``yield``.
    """

    __slots__ = ("_measure", "_measuring", "_name", "_ranges")

    def __init__(
        self, name: str | None, ranges: RangeStack, measure: Callable[[str], Any] | None
    ) -> None:
        self._name = name
        self._ranges = ranges
        self._measure = measure
        self._measuring = measure(name) if measure is not None and name is not None else None

    def __enter__(self) -> None:
        if self._name is None:
            raise InstrumentError(
                "annotate() around a block needs a name: with annotate('load'): ..."
            )
        self._ranges.open_range(self._name)
        if self._measuring is not None:
            try:
                self._measuring.__enter__()
            except BaseException:
                self._ranges.close_range(self._name, failing=True)
                raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._measuring is not None:
            try:
                self._measuring.__exit__(kind, error, traceback)
            except BaseException:
                self._ranges.close_range(self._name or "", failing=True)
                raise
        self._ranges.close_range(self._name or "", failing=kind is not None)

    def __call__(self, function: Function) -> Function:
        """The function, with a range for each call, named by its own name if none was given.

        Raises:
            InstrumentError: it is a class or no function at all.
        """
        wrapped: Any
        if isinstance(function, (staticmethod, classmethod)):
            wrapped = type(function)(self(function.__func__))
            return wrapped  # type: ignore[no-any-return]
        if inspect.isclass(function) or not callable(function):
            raise InstrumentError(f"annotate() decorates functions, not {function!r}.")
        name = self._name
        inner: Any = function
        if name is None:
            name = str(getattr(function, "__qualname__", type(function).__qualname__))
        if self._measure is not None:
            inner = self._measure(name)(function)
        wrapped = functools.wraps(function)(_wrapper_for(inner)(inner, name, self._ranges))
        return wrapped  # type: ignore[no-any-return]


def _wrapper_for(function: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    for is_kind, wrapper in (
        (inspect.iscoroutinefunction, _coroutine),
        (inspect.isasyncgenfunction, _async_generator),
        (inspect.isgeneratorfunction, _generator),
    ):
        if is_kind(function) or is_kind(getattr(function, "__call__", None)):  # noqa: B004
            return wrapper
    return _plain


def _plain(function: Callable[..., Any], name: str, ranges: RangeStack) -> Callable[..., Any]:
    def annotated(*args: Any, **kwargs: Any) -> Any:
        ranges.open_range(name)
        try:
            result = function(*args, **kwargs)
        except BaseException:
            ranges.close_range(name, failing=True)
            raise
        ranges.close_range(name, failing=False)
        return result

    return annotated


def _coroutine(function: Callable[..., Any], name: str, ranges: RangeStack) -> Callable[..., Any]:
    async def annotated(*args: Any, **kwargs: Any) -> Any:
        return await _InStretches(function(*args, **kwargs), name, ranges)

    return annotated


def _generator(function: Callable[..., Any], name: str, ranges: RangeStack) -> Callable[..., Any]:
    def annotated(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _in_stretches(function(*args, **kwargs), name, ranges))

    return annotated


def _async_generator(
    function: Callable[..., Any], name: str, ranges: RangeStack
) -> Callable[..., Any]:
    async def annotated(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        advance: Callable[[], Awaitable[Any]] = generator.__anext__
        while True:
            try:
                item = await _InStretches(advance(), name, ranges)
            except StopAsyncIteration:
                return
            try:
                sent = yield item
            except GeneratorExit:
                await _InStretches(generator.aclose(), name, ranges)
                raise
            except BaseException as error:  # noqa: BLE001  handed on to the function
                advance = functools.partial(generator.athrow, error)
            else:
                advance = functools.partial(generator.asend, sent)

    return annotated


class _InStretches:
    """An awaitable, with a range for each stretch that it runs."""

    def __init__(self, awaitable: Awaitable[Any], name: str, ranges: RangeStack) -> None:
        self._arguments = (awaitable, name, ranges)

    def __await__(self) -> Generator[Any, Any, Any]:
        awaitable, name, ranges = self._arguments
        return _in_stretches(awaitable.__await__(), name, ranges)


def _in_stretches(steps: Any, name: str, ranges: RangeStack) -> Generator[Any, Any, Any]:
    """A generator that does what ``steps`` does, with a range for each stretch that it runs."""
    advance: Callable[[], Any] = functools.partial(next, steps)
    while True:
        with _stretch(name, ranges):
            try:
                item = advance()
            except StopIteration as stop:
                return stop.value
        try:
            sent = yield item
        except GeneratorExit:
            with _stretch(name, ranges):
                steps.close()
            raise
        except BaseException as error:  # noqa: BLE001  handed on to the function
            advance = functools.partial(steps.throw, error)
        else:
            advance = functools.partial(steps.send, sent)


@contextlib.contextmanager
def _stretch(name: str, ranges: RangeStack) -> Iterator[None]:
    ranges.open_range(name)
    try:
        yield
    except BaseException:
        ranges.close_range(name, failing=True)
        raise
    ranges.close_range(name, failing=False)
