"""Push and pop as machine code that jitted functions call by name.

Three functions are built when this module is imported and made known to LLVM under fixed symbols:

- ``i64 assay_nvtx_register_string(i64 handle, const char *name)``
- ``void assay_nvtx_range_push(i64 handle)``
- ``void assay_nvtx_range_pop()``

Code that Numba caches on disk holds only these symbols and handles, no address: LLVM binds it to
the functions of the process that loads it.

Each thread has a record of its open ranges: a word with their number and a byte for each, 1 where
the push reached the tool. So a pop takes back its own push alone: after one that was skipped it
does nothing. The C library frees the record at the end of the thread.
"""

from __future__ import annotations

import ctypes
from typing import Any

from assay._optional import require
from assay.timing.nvtx_library import EVENT_WORDS, NvtxLibrary
from assay.timing.range_handles import CAPACITY, RangeHandles

__all__ = ["MAX_DEPTH", "SYMBOLS", "NativeRanges"]

PURPOSE = "open NVTX ranges in jitted code"
ir: Any = require("llvmlite.ir", extra="numba", purpose=PURPOSE)
llvm: Any = require("llvmlite.binding", extra="numba", purpose=PURPOSE)

SYMBOLS = {
    "register_string": "assay_nvtx_register_string",
    "range_push": "assay_nvtx_range_push",
    "range_pop": "assay_nvtx_range_pop",
}
# Ranges opened inside of so many others are counted, and not shown.
MAX_DEPTH = 1016
_RECORD_BYTES = 8 + MAX_DEPTH

_I8, _I32, _I64, _VOID = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.VoidType()


class NativeRanges:
    """The functions of one process, for its table of handles; callable from Python as well."""

    def __init__(self, handles: RangeHandles, library: NvtxLibrary | None) -> None:
        module = _Builder(handles.address, library, _thread_key()).module
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
        self._engine.finalize_object()
        address = {each: self._engine.get_function_address(each) for each in SYMBOLS.values()}
        for symbol in SYMBOLS.values():
            llvm.add_symbol(symbol, address[symbol])
        # The lock of the interpreter is kept: a push takes less time than giving it back would.
        self.range_push = ctypes.PYFUNCTYPE(None, ctypes.c_int64)(address[SYMBOLS["range_push"]])
        self.range_pop = ctypes.PYFUNCTYPE(None)(address[SYMBOLS["range_pop"]])


class _Builder:
    """Writes the three functions in LLVM's intermediate language."""

    def __init__(self, table: int, library: NvtxLibrary | None, thread_key: int) -> None:
        self.module = ir.Module("assay_nvtx")
        self.module.triple = llvm.get_default_triple()
        self._table = table
        self._library = library
        self._key = _I32(thread_key)
        pointer = _I8.as_pointer()
        self._calloc = self._declare("calloc", pointer, [_I64, _I64])
        self._get_record = self._declare("pthread_getspecific", pointer, [_I32])
        self._set_record = self._declare("pthread_setspecific", _I32, [_I32, pointer])
        self._register_string()
        self._if_anything_is_registered("range_push", self._range_push("push_to_tool"))
        self._if_anything_is_registered("range_pop", self._range_pop("pop_from_tool"))

    def _register_string(self) -> None:
        """Unless the word of the handle is filled, fill it with what the tool says."""
        name = SYMBOLS["register_string"]
        build, (handle, text) = self._define(name, _I64, [_I64, _I8.as_pointer()])
        word = self._word(build, handle)
        with build.if_then(_is_set(build, build.load(word)), likely=True):
            build.ret(handle)
        register = self._library_function("register_string", _I64, [_I64, text.type])
        string = build.call(register, [_I64(0), text]) if register else _I64(0)
        with build.if_then(build.not_(_is_set(build, string))):
            build.ret(_I64(0))
        build.store(string, word)
        build.store(_I64(1), self._word(build, _I64(0)))
        build.ret(handle)

    def _if_anything_is_registered(self, name: str, continuation: Any) -> None:
        """A function that does no more than look at word 0 as long as no name is registered.

        Apart from its continuation it needs no stack frame, which halves its time.
        """
        function_type = continuation.function_type
        build, arguments = self._define(SYMBOLS[name], _VOID, function_type.args)
        anything = _is_set(build, build.load(self._word(build, _I64(0))))
        with build.if_then(anything, likely=False):
            build.call(continuation, arguments, tail=True)
            build.ret_void()
        build.ret_void()

    def _range_push(self, name: str) -> Any:
        build, (handle,) = self._define(name, _VOID, [_I64])
        words = build.alloca(_I64, size=len(EVENT_WORDS) + 1)
        valid = build.icmp_unsigned("<", handle, _I64(CAPACITY))
        # Word 0 is no handle's; an invalid handle must not be looked up at all.
        safe = build.select(valid, handle, _I64(0))
        named = _is_set(build, safe)
        string = build.select(named, build.load(self._word(build, safe)), _I64(0))
        pushed = _is_set(build, string)

        record = self._record_of_this_thread(build)
        depth_at = build.bitcast(record, _I64.as_pointer())
        depth = build.load(depth_at)
        build.store(build.add(depth, _I64(1)), depth_at)
        with build.if_then(build.icmp_unsigned(">=", depth, _I64(MAX_DEPTH)), likely=False):
            build.ret_void()
        build.store(build.zext(pushed, _I8), _mark_at(build, record, depth))
        push = self._library_function("push", _I32, [_I64])
        if push:
            with build.if_then(pushed):
                build.call(push, [_event(build, words, string)])
        build.ret_void()
        return build.function

    def _range_pop(self, name: str) -> Any:
        build, _ = self._define(name, _VOID, [])
        record = build.call(self._get_record, [self._key])
        with build.if_then(build.not_(_is_set(build, build.ptrtoint(record, _I64)))):
            build.ret_void()
        depth_at = build.bitcast(record, _I64.as_pointer())
        depth = build.load(depth_at)
        with build.if_then(build.not_(_is_set(build, depth)), likely=False):
            build.ret_void()
        depth = build.sub(depth, _I64(1))
        build.store(depth, depth_at)
        with build.if_then(build.icmp_unsigned(">=", depth, _I64(MAX_DEPTH)), likely=False):
            build.ret_void()
        pushed = build.trunc(build.load(_mark_at(build, record, depth)), ir.IntType(1))
        pop = self._library_function("pop", _I32, [])
        if pop:
            with build.if_then(pushed):
                build.call(pop, [])
        build.ret_void()
        return build.function

    def _record_of_this_thread(self, build: Any) -> Any:
        """The record, made on the thread's first push; returns from a push that gets no memory."""
        found = build.call(self._get_record, [self._key])
        before = build.block
        with build.if_then(build.not_(_is_set(build, build.ptrtoint(found, _I64))), likely=False):
            made = build.call(self._calloc, [_I64(1), _I64(_RECORD_BYTES)])
            with build.if_then(build.not_(_is_set(build, build.ptrtoint(made, _I64)))):
                build.ret_void()
            build.call(self._set_record, [self._key, made])
            inside = build.block
        record = build.phi(found.type)
        record.add_incoming(found, before)
        record.add_incoming(made, inside)
        return record

    def _word(self, build: Any, index: Any) -> Any:
        first = build.inttoptr(_I64(self._table), _I64.as_pointer())
        return build.gep(first, [index])

    def _library_function(self, name: str, result: Any, arguments: list[Any]) -> Any:
        """A function of the library where this process has it; None without a library."""
        if self._library is None:
            return None
        symbol = f"assay_nvtx_library_{name}"
        llvm.add_symbol(symbol, getattr(self._library, f"{name}_address"))
        return self._declare(symbol, result, arguments)

    def _declare(self, name: str, result: Any, arguments: list[Any]) -> Any:
        return ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def _define(self, name: str, result: Any, arguments: list[Any]) -> tuple[Any, Any]:
        function = self._declare(name, result, arguments)
        return ir.IRBuilder(function.append_basic_block("entry")), function.args


def _is_set(build: Any, word: Any) -> Any:
    return build.icmp_unsigned("!=", word, word.type(0))


def _mark_at(build: Any, record: Any, depth: Any) -> Any:
    return build.gep(record, [build.add(depth, _I64(8))])


def _event(build: Any, words: Any, string: Any) -> Any:
    """The address of the words, filled with event attributes that hold a registered string."""
    for index, word in enumerate((*map(_I64, EVENT_WORDS), string)):
        build.store(word, build.gep(words, [_I64(index)]))
    return build.ptrtoint(words, _I64)


def _thread_key() -> int:
    """A new key of the C library for one pointer per thread, freed at the thread's end."""
    process = ctypes.CDLL(None)
    key = ctypes.c_uint(0)
    failed = process.pthread_key_create(
        ctypes.byref(key), ctypes.cast(process.free, ctypes.c_void_p)
    )
    if failed:
        raise OSError(failed, "pthread_key_create: the process has used up its keys")
    return key.value
