"""What Numba compiles for register_string, range_push and range_pop in jitted code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay._optional import require
from assay.timing.native_ranges import PURPOSE, SYMBOLS
from assay.timing.range_handles import RangeHandles

__all__ = ["teach_numba"]

types: Any = require("numba.core.types", extra="numba", purpose=PURPOSE)
extending: Any = require("numba.extending", extra="numba", purpose=PURPOSE)
cgutils: Any = require("numba.core.cgutils", extra="numba", purpose=PURPOSE)
TypingError: Any = require("numba.core.errors", extra="numba", purpose=PURPOSE).TypingError
ir: Any = require("llvmlite.ir", extra="numba", purpose=PURPOSE)

_push = types.ExternalFunction(SYMBOLS["range_push"], types.void(types.int64))
_pop = types.ExternalFunction(SYMBOLS["range_pop"], types.void())

NO_LIBRARY = (
    "NVTX ranges in jitted code need NVIDIA's NVTX library, which is not installed. "
    "Install it with: pip install 'assay[numba]'"
)


def teach_numba(
    handles: RangeHandles,
    *,
    has_library: bool,
    register_string: Callable[[str], int],
    range_push: Callable[[int], None],
    range_pop: Callable[[], None],
) -> None:
    """Give Numba the native form of the three functions.

    Without the library each call in jitted code becomes a typing error that says so.
    """

    def check_library() -> None:
        if not has_library:
            raise TypingError(NO_LIBRARY)

    register = _register_intrinsic(handles)

    @extending.overload(register_string, prefer_literal=True)  # type: ignore[untyped-decorator]
    def register_string_in_jitted_code(name: Any) -> Any:
        check_library()
        if not isinstance(name, types.StringLiteral):
            raise TypingError(
                f"register_string in jitted code takes a text that is written there, not a value "
                f"of type {name}. Register the name in Python, and hand the handle over."
            )

        def implementation(name: Any) -> Any:
            return register(name)

        return implementation

    @extending.overload(range_push)  # type: ignore[untyped-decorator]
    def range_push_in_jitted_code(handle: Any) -> Any:
        check_library()
        if not isinstance(handle, types.Integer):
            raise TypingError(
                f"range_push takes a handle of register_string, an integer, not {handle}."
            )

        def implementation(handle: Any) -> Any:
            _push(types.int64(handle))

        return implementation

    @extending.overload(range_pop)  # type: ignore[untyped-decorator]
    def range_pop_in_jitted_code() -> Any:
        check_library()

        def implementation() -> Any:
            _pop()

        return implementation


def _register_intrinsic(handles: RangeHandles) -> Any:
    @extending.intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
    def register(typing_context: Any, name: Any) -> Any:
        text = name.literal_value
        handle = handles.reserve(text)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(64)
            if not handle:  # there are more names than handles
                return word(0)
            kind = ir.FunctionType(word, [word, ir.IntType(8).as_pointer()])
            function = cgutils.get_or_insert_function(
                builder.module, kind, SYMBOLS["register_string"]
            )
            encoded = text.encode("utf-8", "backslashreplace")
            constant = cgutils.make_bytearray(encoded + b"\0")
            variable = cgutils.global_constant(builder, ".assay.range.name", constant)
            address = builder.bitcast(variable, ir.IntType(8).as_pointer())
            return builder.call(function, [word(handle), address])

        return types.int64(name), generate

    return register
