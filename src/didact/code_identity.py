"""Hashes of functions, classes and objects by what they consist of: their code, what it refers to, and their state.

Two processes get the same hashes. The code of libraries (the standard library, installed packages, didact itself)
counts by its name alone; everything else is looked into: bytecode and constants, defaults, closures, the globals that
the code reads, functions that it calls, classes with their methods, and attributes of objects.
"""

from __future__ import annotations

import copy
import copyreg
import dis
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

STANDS_FOR: dict[str, Callable[[Any], object]] = {}
"""Plain content that stands for the objects of a library's class, by the class's full name; subclasses included."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, type(...), type(NotImplemented))
_CONTAINERS = (list, tuple, dict, set, frozenset)
_NO_STATE = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__abstractmethods__"}
    | {"_abc_impl", "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__firstlineno__"}
    | {
        "__static_attributes__",
        "__slotnames__",
        "__orig_bases__",
        "__parameters__",
        "__annotate__",
        "__annotate_func__",
    }
)
"""Entries of a class that follow from the others, or that differ between processes."""

_SLOTS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_STATELESS = ("_thread.lock", "_thread.RLock", "_thread._local")


class Inventory:
    """What something consists of, part by part.

    Args:
        value: a function, a class or an object.
        name: what the first part is called.
        own: packages that are looked into although they are installed.
        settled: take lists, dicts and sets that a class holds as they were when they were first looked at: they may be
            records or caches that grow with use.

    Attributes:
        parts: a hash of every part by its name, such as "predict()", "predict.weights" or "rules.clean()".
        opaque: names of the parts that cannot be looked into, with their types.
    """

    def __init__(self, value: object, name: str, own: Iterable[str] = (), *, settled: bool = False) -> None:
        self.parts: dict[str, str] = {}
        self.opaque: dict[str, str] = {}
        self._own = frozenset(own)
        self._settled = settled
        self._seen: dict[int, str] = {}
        self._alive: list[object] = []  # an id is good for as long as its object lives
        self._visit(name, value)

    def digest(self, without: Iterable[str] = ()) -> str:
        """Hash of all parts but some, and what these contain."""
        left = tuple(without)
        out = hashlib.sha256()
        for name, digest in sorted(self.parts.items()):
            if not any(name == one or name.startswith((f"{one}[", f"{one}.", f"{one}()")) for one in left):
                out.update(f"{name}\x00{digest}\x00".encode())
        return out.hexdigest()

    def _visit(self, name: str, value: object) -> None:
        if isinstance(value, (*_PLAIN, np.ndarray, np.generic)) or type(value) in _CONTAINERS:
            self._put(name, value)
            return
        if id(value) in self._seen:
            self._put(name, f"see {self._seen[id(value)]}")
            return
        self._seen[id(value)] = name
        self._alive.append(value)
        stands = next((STANDS_FOR[base] for base in map(full_name, type(value).__mro__) if base in STANDS_FOR), None)
        if stands is not None:
            self._put(name, [full_name(type(value)), stands(value)])
        else:
            self._look_into(name, value)

    def _look_into(self, name: str, value: object) -> None:
        if isinstance(value, types.FunctionType):
            self._function(name, value)
        elif isinstance(value, types.MethodType):
            self._visit(name, value.__func__)
            self._visit(f"{name}.self", value.__self__)
        elif isinstance(value, functools.partial):
            self._put(f"{name}()", ["partial", list(value.args), dict(value.keywords)])
            self._visit(f"{name}.func", value.func)
        elif isinstance(value, type):
            self._class(name, value)
        elif isinstance(value, types.ModuleType):
            self._put(name, f"module {value.__name__}")
        elif isinstance(value, types.CodeType):
            self._put(name, value)
        elif (inner := _wrapped(value)) is not None:
            self._put(f"{name}()", full_name(type(value)))
            for label, part in inner.items():
                self._visit(f"{name}.{label}", part)
        else:
            self._object(name, value)

    def _function(self, name: str, function: types.FunctionType) -> None:
        module = str(function.__globals__.get("__name__", ""))
        cells = dict(zip(function.__code__.co_freevars, map(_content, function.__closure__ or ()), strict=True))
        if self._is_library(module) and len(self._seen) > 1:  # what was asked for is always looked into
            self._put(f"{name}()", f"function {module}.{function.__qualname__}")
            cells = {label: value for label, value in cells.items() if self._is_foreign(value)}
        else:
            self._put(f"{name}()", function.__code__)
            self._put(f"{name}.defaults", [function.__defaults__, function.__kwdefaults__])
            self._globals(module, function)
            cells |= {f"attribute {label}": value for label, value in vars(function).items()}
        for label, value in cells.items():
            self._visit(f"{name}.{label}", value)

    def _globals(self, module: str, function: types.FunctionType) -> None:
        """The globals that the function's code reads; of modules of the user's own, the attributes that it may mean."""
        read, attributes, imported = _names(function.__code__)
        for label in read:
            if label in function.__globals__:
                value = function.__globals__[label]
                self._visit(f"{module}.{label}", value)
                if isinstance(value, types.ModuleType):
                    self._module(value, attributes)
        package = function.__globals__.get("__package__")
        for label in imported:
            for place in (label, f"{package}.{label}".removesuffix(".")):
                if place in sys.modules:
                    self._module(sys.modules[place], attributes)

    def _module(self, module: types.ModuleType, attributes: Iterable[str]) -> None:
        if self._is_library(module.__name__):
            return
        for label in attributes:
            value = vars(module).get(label, _ABSENT)
            if value is _ABSENT or f"{module.__name__}.{label}" in self.parts:
                continue
            self._visit(f"{module.__name__}.{label}", value)
            if isinstance(value, types.ModuleType):
                self._module(value, attributes)

    def _class(self, name: str, cls: type) -> None:
        self._put(name, f"class {full_name(cls)}")
        if self._is_library(cls.__module__):
            return
        for number, base in enumerate(cls.__bases__):
            self._visit(f"{name}.base {number}", base)
        for label, value in sorted(vars(cls).items()):
            if label in _NO_STATE or isinstance(value, _SLOTS):
                continue
            if self._settled and type(value) in (list, dict, set):
                value = _as_first_seen(cls, label, value)
            self._visit(f"{name}.{label}", value)

    def _object(self, name: str, value: object) -> None:
        """An object by its class and by how it would be pickled."""
        kind = type(value)
        self._visit(f"{name}.class", kind)
        if isinstance(value, _CONTAINERS):  # of a class of its own, such as Counter
            self._put(name, next(plain for plain in _CONTAINERS if isinstance(value, plain))(value))
        reduce = copyreg.dispatch_table.get(kind)
        try:
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception as problem:  # whatever a foreign class raises
            self._put(name, f"opaque {full_name(kind)}")
            if full_name(kind) not in _STATELESS:
                self.opaque[name] = f"{full_name(kind)}: {problem!s:.80}"
            return
        if isinstance(reduced, str):
            self._put(name, reduced)
            return
        make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        self._visit(f"{name}.make", make)
        self._put(f"{name}.arguments", [arguments, list(items or ()), list(pairs or ())])
        self._attributes(name, state)

    def _attributes(self, name: str, state: object) -> None:
        states = state if isinstance(state, tuple) else (state,)
        for part in states:
            if isinstance(part, Mapping):
                for label, value in part.items():
                    self._visit(f"{name}.{label}", value)
            elif part is not None:
                self._visit(f"{name}.state", part)

    def _put(self, name: str, value: object) -> None:
        out = hashlib.sha256()
        self._write(out, name, value, ())
        number, free = 1, name
        while free in self.parts:
            number += 1
            free = f"{name}#{number}"
        self.parts[free] = out.hexdigest()

    def _write(self, out: hashlib._Hash, name: str, value: object, above: tuple[int, ...]) -> None:
        """Feed a plain value, with the parts of containers; what is not plain becomes a part of its own."""
        out.update(f"{type(value).__name__}\x00".encode())
        if isinstance(value, _PLAIN):
            text = value if isinstance(value, (bytes, bytearray)) else repr(value).encode("utf-8", "surrogatepass")
            out.update(f"{len(text)}\x00".encode() + text)
        elif isinstance(value, (np.ndarray, np.generic)):
            self._write_array(out, name, np.asarray(value), above)
        elif isinstance(value, types.CodeType):
            self._write_each(out, name, _code_facts(value), above)
        elif id(value) in above:
            out.update(f"above {above[::-1].index(id(value))}\x00".encode())
        elif type(value) in (list, tuple):
            self._write_each(out, name, value, (*above, id(value)))  # type: ignore[arg-type]
        elif type(value) is dict:
            pairs = [one for pair in value.items() for one in pair]
            self._write_each(out, name, pairs, (*above, id(value)))
        elif type(value) in (set, frozenset):
            out.update("".join(sorted(self._element(name, one) for one in value)).encode())  # type: ignore[attr-defined]
        else:
            self._visit(f"{name}[{full_name(type(value))}]", value)

    def _write_each(self, out: hashlib._Hash, name: str, values: Iterable[object], above: tuple[int, ...]) -> None:
        several = list(values)
        out.update(f"{len(several)}\x00".encode())
        for number, one in enumerate(several):
            self._write(out, f"{name}[{number}]", one, above)

    def _write_array(self, out: hashlib._Hash, name: str, array: np.ndarray[Any, Any], above: tuple[int, ...]) -> None:
        out.update(f"{array.dtype.str}{array.dtype.descr if array.dtype.names else ''}{array.shape}\x00".encode())
        if array.dtype.hasobject:
            self._write_each(out, name, array.tolist() if array.shape else [array.item()], above)
        else:
            out.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _element(self, name: str, value: object) -> str:
        """Hash of an element of a set, which has no place among the others."""
        out = hashlib.sha256()
        if isinstance(value, (*_PLAIN, tuple, frozenset)):
            self._write(out, name, value, ())
        else:
            out.update(Inventory(value, "element", self._own).digest().encode())
        return out.hexdigest()

    def _is_library(self, module: str) -> bool:
        return module.partition(".")[0] not in self._own and is_library(module)

    def _is_foreign(self, value: object) -> bool:
        """Whether a value is the user's own: a function, a class or an object of one that no library defines."""
        if isinstance(value, types.MethodType):
            return self._is_foreign(value.__func__) or self._is_foreign(value.__self__)
        if isinstance(value, types.FunctionType):
            return not self._is_library(str(value.__globals__.get("__name__", "")))
        return not self._is_library((value if isinstance(value, type) else type(value)).__module__)


def digest_of(value: object, name: str = "") -> str:
    """Hash of what a function, a class or an object consists of."""
    return Inventory(value, name).digest()


def foreign_code(value: object) -> str:
    """Hash of a class or an object of one that is not didact's own; empty where it is.

    For registered things of other packages, whose versions are recorded nowhere: the class's code with all that its
    package defines for it, and the object's state.
    """
    root = (value if isinstance(value, type) else type(value)).__module__.partition(".")[0]
    return "" if root == "didact" else Inventory(value, "", [root], settled=True).digest()


def full_name(cls: type) -> str:
    """Module and name of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


@functools.cache
def _library_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple(Path(paths[kind]).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib"))


def is_library(module: str) -> bool:
    """Whether a module belongs to Python, to an installed package or to didact; its code counts by name alone."""
    return _is_installed(module.partition(".")[0])


@functools.cache
def _is_installed(root: str) -> bool:
    if root == "__main__":
        return False
    if root == "didact" or root in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(root), "__file__", None) or _first_folder(root)
    return file is not None and any(folder in Path(file).resolve().parents for folder in _library_folders())


def _first_folder(root: str) -> str | None:
    """Where a package without a file of its own lies."""
    places = list(getattr(sys.modules.get(root), "__path__", ()))
    return str(Path(places[0]) / "__init__.py") if places else None


_ABSENT = object()
_FIRST: WeakKeyDictionary[type, dict[str, tuple[object, object]]] = WeakKeyDictionary()


def _as_first_seen(cls: type, label: str, value: object) -> object:
    """A copy of a class's container from the first time that this very container was looked at."""
    known = _FIRST.setdefault(cls, {})
    if label not in known or known[label][0] is not value:
        known[label] = (value, copy.copy(value))
    return known[label][1]


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is assigned later
        return "not assigned"


def _wrapped(value: object) -> dict[str, object] | None:
    """The functions inside a decorator's object; None for other objects."""
    if isinstance(value, property):
        return {"get": value.fget, "set": value.fset, "del": value.fdel}
    if isinstance(value, functools.cached_property):
        return {"get": value.func}
    if isinstance(value, (classmethod, staticmethod)):
        return {"function": value.__func__}
    if type(value).__name__ == "_lru_cache_wrapper":
        return {"function": value.__wrapped__}  # type: ignore[attr-defined]
    return None


def _code_facts(code: types.CodeType) -> list[object]:
    """What decides a code object's doing; neither its file nor its line numbers."""
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    return [counts, names, code.co_code, code.co_exceptiontable, list(code.co_consts)]


@functools.lru_cache(4096)
def _names(code: types.CodeType) -> tuple[list[str], list[str], list[str]]:
    """Globals that a code object and those in it read, attributes that they look up, and modules they import."""
    read: dict[str, None] = {}
    attributes: dict[str, None] = {}
    imported: dict[str, None] = {}
    waiting = [code]
    while waiting:
        one = waiting.pop(0)
        for step in dis.get_instructions(one):
            if "GLOBAL" in step.opname or step.opname == "LOAD_NAME":
                read[step.argval] = None
            elif step.opname == "IMPORT_NAME":
                imported[step.argval] = None
            elif "ATTR" in step.opname or step.opname in ("LOAD_METHOD", "IMPORT_FROM"):
                attributes[step.argval] = None
        waiting += [inner for inner in one.co_consts if isinstance(inner, types.CodeType)]
    return list(read), list(attributes), list(imported)
