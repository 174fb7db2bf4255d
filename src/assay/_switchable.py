"""Instruments: one object per class, whose methods do nothing until it is enabled.

A method is written once, with what it returns while the instrument is off::

    class Counter(Instrument):
        def enable(self, first: int) -> None:
            with self._enabling():
                self._next = first

        @switchable(disabled=0)
        def count(self) -> int:
            self._next += 1
            return self._next

``Counter()`` is always the same object, ``Counter(5)`` also enables it. Enabling puts the methods
as they are written into the class, disabling their empty twins, which have the same name, signature
and docstring; so a call of a disabled method costs what a call of an empty one does. Look methods
up when they are called: a bound method stored while the instrument was off stays without effect.

Enabling holds one lock for all instruments, which a fork takes, too: a child never sees an
instrument half enabled. Spawned processes import the class anew and start with it disabled.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from assay.errors import InstrumentError

__all__ = ["Instrument", "is_being_compiled", "reset_instruments", "switchable"]

Method = TypeVar("Method", bound=Callable[..., Any])

_SWITCH = "__assay_switch__"
_TRACED_INSTEAD = (
    "_torchdynamo_inline"  # what torch.compile (2.0 and later) looks into in its place
)
_PLACEHOLDER = "<the value that this code returns>"
_PLACEHOLDER_NOT_GIVEN = "<what stands for a missing argument>"
_NOT_GIVEN: Any = type("NotGiven", (), {"__repr__": lambda _: "<not given>"})()

_lock = threading.RLock()
_instruments: list[Instrument] = []


def is_being_compiled() -> bool:
    """Whether ``torch.compile`` is tracing the caller, without importing torch.

    Compiled code has no line of time of its own: what only concerns the clock stays out of it, and
    asks this first, so that nothing after it breaks the graph.
    """
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    return compiler is not None and compiler.is_compiling()


class _Switch:
    """One method in its states: functions of their own, for one whose code changes calls slower."""

    def __init__(
        self, method: FunctionType, disabled: Any, notes_use: bool, skip_in_compiled: bool
    ) -> None:
        self.enabled = method
        self.disabled = _twin(method, f"return {_PLACEHOLDER!r}", disabled)
        self.until_used = self.disabled
        if notes_use:
            own = next(iter(inspect.signature(method).parameters))
            body = f"{own}._note_use({method.__name__!r}); return {_PLACEHOLDER!r}"
            self.until_used = _twin(method, body, disabled)
        if skip_in_compiled:
            for function in {self.enabled, self.until_used} - {self.disabled}:
                setattr(function, _TRACED_INSTEAD, self.disabled)


def switchable(
    *, disabled: Any = None, notes_use: bool = False, skip_in_compiled: bool = False
) -> Callable[[Method], Method]:
    """Mark a method of an :class:`Instrument` that returns ``disabled`` until it is enabled.

    Args:
        notes_use: the first call while disabled leaves a note, which ``_was_used_before_enabling``
            reads; later calls cost no more than those of other methods.
        skip_in_compiled: within a function that ``torch.compile`` traces, the method stays as when
            disabled, and breaks no graph. This costs other calls nothing.
    """

    def mark(method: Method) -> Method:
        setattr(method, _SWITCH, (disabled, notes_use, skip_in_compiled))
        return method

    return mark


class _InstrumentType(type):
    """Makes an instrument's only object when its class is made, and returns it at each call.

    Each instrument gets a metaclass of its own, for a ``__call__`` with the parameters of its
    ``enable``: one that takes ``*args, **kwargs`` needs half as long again.
    """

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]
    ) -> _InstrumentType:
        if not bases:
            return super().__new__(mcls, name, bases, namespace)
        if bases != (Instrument,):
            raise TypeError(f"{name}: an instrument has no subclasses, for it is one object.")
        own: Any = type.__new__(type, f"{name}Type", (_InstrumentType,), {})
        cls: Any = type.__new__(own, name, bases, namespace)
        instance = object.__new__(cls)
        enable = inspect.signature(namespace["enable"])
        parameters = list(enable.parameters.values())[1:]
        own.__call__ = _call_function(instance, parameters)
        cls.__signature__ = enable.replace(
            parameters=[each.replace(default=_NOT_GIVEN) for each in parameters],
            return_annotation=name,
        )
        cls._enable_as_written = staticmethod(namespace["enable"])
        cls._switches = {
            key: _Switch(value, *getattr(value, _SWITCH))
            for key, value in namespace.items()
            if hasattr(value, _SWITCH)
        }
        instance._switch_off()
        _instruments.append(instance)
        return cls  # type: ignore[no-any-return]


class Instrument(metaclass=_InstrumentType):
    """Base of what is one object for the whole process, and off until its ``enable`` is called.

    A subclass defines ``enable`` with ``with self._enabling():`` around the setting of its state,
    and marks methods with :func:`switchable`. All its state is in attributes of the object; those
    that each call reads are best named in ``__slots__``, which are quick on every Python.
    """

    _switches: ClassVar[dict[str, _Switch]]
    _enable_as_written: ClassVar[Callable[..., None]]
    _enabled: ClassVar[bool]
    _used: ClassVar[frozenset[str]]  # methods that note their use, and were used while disabled

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    @property
    def is_enabled(self) -> bool:
        """Whether the methods do anything."""
        return self._enabled

    @contextlib.contextmanager
    def _enabling(self) -> Iterator[None]:
        """Set the state in the block; at its end the methods go live, if it did not raise.

        Raises:
            InstrumentError: the instrument is enabled already.
        """
        with _lock:
            name = type(self).__name__
            if self._enabled:
                raise InstrumentError(
                    f"{name} is enabled already, which can be done once. Enable it in one place; "
                    f"in tests and notebooks call assay.testing.reset_instruments() before."
                )
            try:
                yield
            except BaseException:
                self._forget()
                raise
            for name, switch in self._switches.items():
                setattr(type(self), name, switch.enabled)
            type(self)._enabled = True

    def _ignore_once(self, method: str, note: Callable[[], object]) -> None:
        """Let the next call of ``method`` do nothing but call ``note``; those after it as ever.

        For who enables an instrument from outside of a program which enables it as well.
        """
        cls, own = type(self), getattr(type(self), method)
        signature = inspect.signature(own)

        @functools.wraps(own)
        def ignored(*args: Any, **kwargs: Any) -> None:
            signature.bind(*args, **kwargs)  # a wrong call stays an error
            with _lock:
                setattr(cls, method, own)
            note()

        setattr(cls, method, ignored)

    def _note_use(self, method: str) -> None:
        if is_being_compiled():
            return
        with _lock:
            if not self._enabled:
                type(self)._used |= {method}
                setattr(type(self), method, self._switches[method].disabled)

    def _was_used_before_enabling(self, method: str) -> bool:
        """Whether the method, marked with ``notes_use``, was called while disabled."""
        return method in self._used

    def _reset(self) -> None:
        """Off, and as if never enabled or used."""
        with _lock:
            was_enabled = self._enabled
            self._switch_off()
            type(self).enable = self._enable_as_written  # type: ignore[attr-defined]
            if was_enabled:
                self._close()
            self._forget()

    def _switch_off(self) -> None:
        cls = type(self)
        for name, switch in self._switches.items():
            setattr(cls, name, switch.until_used)
        cls._enabled = False
        cls._used = frozenset()

    def _forget(self) -> None:
        for name in type(self).__dict__.get("__slots__", ()):
            if hasattr(self, name):
                delattr(self, name)
        # Only here: once looked at, an object's __dict__ makes calls of its methods slower.
        vars(self).clear()

    def _close(self) -> None:
        """Give back what the instrument holds outside of its attributes, before a reset."""

    def _after_fork_in_child(self) -> None:
        """Renew locks, and forget the threads that stayed in the parent."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()

    def __copy__(self) -> Instrument:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Instrument:
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {'enabled' if self._enabled else 'disabled'}>"


def reset_instruments() -> None:
    """Disable every instrument and drop what it gathered, so that it can be enabled anew."""
    with _lock:
        for instrument in _instruments:
            instrument._reset()


def _twin(method: FunctionType, body: str, returned: Any) -> FunctionType:
    """A function that shows itself as ``method`` and runs ``body``."""
    parameters = list(inspect.signature(method).parameters.values())
    twin = _function(
        method.__name__, parameters, [body], {_PLACEHOLDER: returned}, method.__globals__, method
    )
    twin.__qualname__ = method.__qualname__
    twin.__doc__ = method.__doc__
    twin.__annotations__ = method.__annotations__
    return twin


def _call_function(instance: Instrument, parameters: list[inspect.Parameter]) -> FunctionType:
    """``__call__`` of an instrument's class: its object, enabled if any parameter was given."""
    names = [each.name for each in parameters]
    none_given = " and ".join(f"{name} is {_PLACEHOLDER_NOT_GIVEN!r}" for name in names)
    body = [
        f"if {none_given or 'True'}: return {_PLACEHOLDER!r}",
        f"return __enable({_PLACEHOLDER!r}, {{{', '.join(f'{n!r}: {n}' for n in names)}}})",
    ]
    own = inspect.Parameter("__cls", inspect.Parameter.POSITIONAL_ONLY)
    optional = [each.replace(default=_NOT_GIVEN) for each in parameters]
    constants = {_PLACEHOLDER: instance, _PLACEHOLDER_NOT_GIVEN: _NOT_GIVEN}
    return _function("__call__", [own, *optional], body, constants, {"__enable": _enable_with})


class _Verbatim:
    """A default that a signature prints as it stands."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _function(
    name: str,
    parameters: Sequence[inspect.Parameter],
    body: Sequence[str],
    constants: dict[str, Any],
    namespace: dict[str, Any],
    origin: FunctionType | None = None,
) -> FunctionType:
    """A function of these parameters and lines, in which objects stand for text constants.

    It is made by a def statement and left as that makes it: other functions, and functions of
    ``*args, **kwargs``, take longer to call. ``origin`` is where its source is to be found.
    """
    defaults, shown = {}, []
    for each in parameters:
        default: Any = each.empty
        if each.default is not each.empty:
            default = _Verbatim(f"__default_{each.name}")
            defaults[repr(default)] = each.default
        shown.append(each.replace(default=default, annotation=each.empty))
    lines = "\n  ".join(body)
    source = (
        f"def __make({', '.join(defaults)}):\n"
        f" def {name}{inspect.Signature(shown)}:\n  {lines}\n"
        f" return {name}\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # "is" beside what is yet a text
        module = compile(source, "<assay instrument>", "exec")
    made = _with_constants(module, constants, None if origin is None else origin.__code__)
    [make] = (each for each in made.co_consts if isinstance(each, CodeType))
    function: FunctionType = FunctionType(make, namespace)(**defaults)
    return function


def _with_constants(code: CodeType, constants: dict[str, Any], place: CodeType | None) -> CodeType:
    """The code, and the code within it, with its text constants exchanged for objects."""
    found: list[Any] = []
    for each in code.co_consts:
        if isinstance(each, CodeType):
            each = _with_constants(each, constants, place)
        found.append(constants.get(each, each) if isinstance(each, str) else each)
    if place is None:
        return code.replace(co_consts=tuple(found))
    return code.replace(
        co_consts=tuple(found),
        co_filename=place.co_filename,
        co_firstlineno=place.co_firstlineno,
    )


def _enable_with(instance: Any, values: dict[str, Any]) -> Any:
    instance.enable(**{name: each for name, each in values.items() if each is not _NOT_GIVEN})
    return instance


def _after_fork_in_child() -> None:
    _lock.release()
    for instrument in _instruments:
        instrument._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_after_fork_in_child,
    )
