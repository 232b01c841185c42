"""Lane B: NVRTC's own output on the CPU. PTX is translated to C++, instruction by instruction, and executed.

A register becomes a variable of its width, an instruction a statement, a branch a ``goto``. What an instruction does is
written down in `FAMILIES`, from the PTX manual: integers wrap, shifts clamp, ``.ftz`` flushes denormals of what is read and
written, comparisons with a ``u`` are true of NaN. An instruction that is not there raises: nothing is guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import nvrtc
import source_lane
from source_lane import LOOP, SHIM, Compiled, Parameter, build, signatures

HELPERS = r"""
#include <stdint.h>
#include <string.h>
template <class To, class From> static inline To bits(From from) {
    To to = 0;
    memcpy(&to, &from, sizeof to < sizeof from ? sizeof to : sizeof from);
    return to;
}
static inline float ftz(float x) { return x != 0 && fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x; }
static inline double ftz(double x) { return x != 0 && fabs(x) < 2.2250738585072014e-308 ? copysign(0.0, x) : x; }
template <class T> static inline T shl(T x, uint32_t by) { return by >= 8 * sizeof(T) ? 0 : (T)(x << by); }
template <class T> static inline T shr(T x, uint32_t by) {
    return by < 8 * sizeof(T) ? (T)(x >> by) : x < 0 ? (T)-1 : (T)0;
}
template <class T> static inline T load(uint64_t at) { T x; memcpy(&x, (const void *)at, sizeof x); return x; }
template <class T> static inline void store(uint64_t at, T x) { memcpy((void *)at, &x, sizeof x); }
"""

C_TYPES = {
    "pred": "bool", "b16": "uint16_t", "u16": "uint16_t", "s16": "int16_t", "b32": "uint32_t", "u32": "uint32_t",
    "s32": "int32_t", "b64": "uint64_t", "u64": "uint64_t", "s64": "int64_t", "f32": "float", "f64": "double",
}  # fmt: skip
UNSIGNED = {"s32": "u32", "s64": "u64", "s16": "u16"}
SPECIAL = {f"%{name}.{axis}": f"{variable}.{axis}" for axis in "xyz" for name, variable in
           (("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim"))}  # fmt: skip


class UnknownInstruction(NotImplementedError):
    """The translator does not know what this does."""


@dataclass(frozen=True)
class Op:
    """One instruction: its opcode in parts, and its operands as they are written."""

    name: str
    suffixes: tuple[str, ...]
    operands: tuple[str, ...]
    text: str

    @property
    def type(self) -> str:
        """The last suffix: what the instruction computes in."""
        return self.suffixes[-1]

    @property
    def flushes(self) -> bool:
        return "ftz" in self.suffixes

    def only(self, *allowed: str) -> None:
        """Raise where a suffix other than `allowed` and the type changes what the instruction does."""
        if set(self.suffixes[:-1]) - set(allowed):
            raise UnknownInstruction(f"ptx: {self.text}")


def register_of(operand: str) -> str:
    return operand[1:].replace(".", "_")


def held_by(operand: str) -> str:
    """The PTX type of a register, which its name tells."""
    match = re.fullmatch(r"%(rd|rs|r|fd|f|p)\d+", operand)
    if not match:
        raise UnknownInstruction(f"ptx: register {operand}")
    return {"rd": "b64", "rs": "b16", "r": "b32", "fd": "f64", "f": "f32", "p": "pred"}[match[1]]


def read(op: Op, i: int, kind: str) -> str:
    """Operand i as a C++ expression of PTX type `kind`."""
    operand, c_type = op.operands[i], C_TYPES[kind]
    if operand in SPECIAL:
        return f"(({c_type}){SPECIAL[operand]})"
    if operand.startswith("%"):
        own = C_TYPES[held_by(operand)]
        value = register_of(operand) if own == c_type else f"bits<{c_type}>({register_of(operand)})"
        if own == C_TYPES.get(UNSIGNED.get(kind, "")):
            value = f"(({c_type}){register_of(operand)})"
    elif match := re.fullmatch(r"0[fF]([0-9A-Fa-f]{8})", operand):
        value = f"bits<float>((uint32_t)0x{match[1]}u)"
    elif match := re.fullmatch(r"0[dD]([0-9A-Fa-f]{16})", operand):
        value = f"bits<double>((uint64_t)0x{match[1]}ull)"
    elif re.fullmatch(r"-?\d+", operand) and kind[0] in "sub":
        value = f"(({c_type}){operand}ll)"
    elif match := re.fullmatch(r"\w+_param_(\d+)", operand):  # the address of a parameter
        value = f"(({c_type})params[{match[1]}])"
    else:
        raise UnknownInstruction(f"ptx: operand {operand} in {op.text}")
    return f"ftz({value})" if op.flushes and kind[0] == "f" else value


def write(op: Op, expression: str, kind: str) -> str:
    """Put a value of PTX type `kind` into operand 0, whose register has the same width."""
    if op.flushes and kind[0] == "f":
        expression = f"ftz({expression})"
    target, own = register_of(op.operands[0]), C_TYPES[held_by(op.operands[0])]
    if own in (C_TYPES[kind], C_TYPES.get(UNSIGNED.get(kind, ""))):
        return f"{target} = ({own})({expression});"
    return f"{target} = bits<{own}>(({C_TYPES[kind]})({expression}));"


def address(op: Op, i: int) -> str:
    match = re.fullmatch(r"\[(%rd\d+)(?:\+(-?\d+))?\]", op.operands[i])
    if not match:
        raise UnknownInstruction(f"ptx: address in {op.text}")
    return f"{register_of(match[1])} + ({match[2] or 0}ll)"


# --- families ---


def arithmetic(symbol: str):
    def emit(op: Op) -> str:
        op.only("rn", "ftz")
        kind = UNSIGNED.get(op.type, op.type)  # integers wrap
        return write(op, f"{read(op, 1, kind)} {symbol} {read(op, 2, kind)}", kind)

    return emit


def divide(symbol: str):
    def emit(op: Op) -> str:
        op.only("rn", "ftz")
        return write(op, f"{read(op, 1, op.type)} {symbol} {read(op, 2, op.type)}", op.type)

    return emit


def multiply(op: Op) -> str:
    if op.suffixes[0] == "wide":
        op.only("wide")
        wide = {"s32": "s64", "u32": "u64"}[op.type]
        cast = C_TYPES[wide]
        return write(op, f"({cast}){read(op, 1, op.type)} * ({cast}){read(op, 2, op.type)}", wide)
    op.only("lo", "rn", "ftz")
    return arithmetic("*")(Op(op.name, tuple(s for s in op.suffixes if s != "lo"), op.operands, op.text))


def multiply_add(op: Op) -> str:
    if op.suffixes[0] != "lo":
        raise UnknownInstruction(f"ptx: {op.text}")
    op.only("lo")
    kind = UNSIGNED.get(op.type, op.type)
    return write(op, f"{read(op, 1, kind)} * {read(op, 2, kind)} + {read(op, 3, kind)}", kind)


def fused(op: Op) -> str:
    op.only("rn", "ftz")
    function = {"f32": "fmaf", "f64": "fma"}[op.type]
    return write(op, f"{function}({read(op, 1, op.type)}, {read(op, 2, op.type)}, {read(op, 3, op.type)})", op.type)


def negate(op: Op) -> str:
    op.only("ftz")
    if op.type[0] == "f":
        return write(op, f"-{read(op, 1, op.type)}", op.type)
    kind = UNSIGNED[op.type]
    return write(op, f"0 - {read(op, 1, kind)}", kind)


def extreme(symbol: str):
    def emit(op: Op) -> str:
        op.only("ftz")
        a, b = read(op, 1, op.type), read(op, 2, op.type)
        if op.type[0] == "f":  # of a number and NaN the number
            return write(op, f"{'fmin' if symbol == '<' else 'fmax'}({a}, {b})", op.type)
        return write(op, f"{a} {symbol} {b} ? {a} : {b}", op.type)

    return emit


def logic(symbol: str):
    def emit(op: Op) -> str:
        op.only()
        return write(op, f"{read(op, 1, op.type)} {symbol} {read(op, 2, op.type)}", op.type)

    return emit


def invert(op: Op) -> str:
    op.only()
    return write(op, f"{'!' if op.type == 'pred' else '~'}{read(op, 1, op.type)}", op.type)


def shift(op: Op) -> str:
    op.only()
    return write(op, f"{op.name}<{C_TYPES[op.type]}>({read(op, 1, op.type)}, {read(op, 2, 'u32')})", op.type)


ORDERED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compare(op: Op) -> str:
    op.only("ftz", op.suffixes[0])
    how, a, b = op.suffixes[0], read(op, 1, op.type), read(op, 2, op.type)
    if how == "num":
        test = f"({a} == {a} && {b} == {b})"
    elif how == "nan":
        test = f"!({a} == {a} && {b} == {b})"
    elif how in ORDERED:
        nan = f" && ({a} == {a} && {b} == {b})" if how == "ne" and op.type[0] == "f" else ""
        test = f"({a} {ORDERED[how]} {b}){nan}"
    elif how[:-1] in ORDERED and how[-1] == "u" and op.type[0] == "f":
        test = f"(({a} {ORDERED[how[:-1]]} {b}) || !({a} == {a} && {b} == {b}))"
    else:
        raise UnknownInstruction(f"ptx: {op.text}")
    return f"{register_of(op.operands[0])} = {test};"


def select(op: Op) -> str:
    op.only()
    return write(op, f"{read(op, 3, 'pred')} ? {read(op, 1, op.type)} : {read(op, 2, op.type)}", op.type)


def move(op: Op) -> str:
    op.only()
    if op.type == "pred":
        value = {"1": "true", "0": "false", "-1": "true"}.get(op.operands[1]) or read(op, 1, "pred")
        return f"{register_of(op.operands[0])} = {value};"
    return write(op, read(op, 1, op.type), op.type)


def convert(op: Op) -> str:
    *how, to, source = op.suffixes
    if set(how) - {"rn", "ftz"}:
        raise UnknownInstruction(f"ptx: {op.text}")
    return write(op, f"({C_TYPES[to]}){read(op, 1, source)}", to)


def load(op: Op) -> str:
    if op.suffixes[0] == "param":
        op.only("param")
        match = re.fullmatch(r"\[\w+_param_(\d+)(?:\+(\d+))?\]", op.operands[1])
        if not match:
            return write(op, f"load<{C_TYPES[op.type]}>({address(op, 1)})", op.type)
        return write(op, f"load<{C_TYPES[op.type]}>((uint64_t)params[{match[1]}] + {match[2] or 0})", op.type)
    op.only("global", "nc")
    return write(op, f"load<{C_TYPES[op.type]}>({address(op, 1)})", op.type)


def save(op: Op) -> str:
    op.only("global")
    return f"store<{C_TYPES[op.type]}>({address(op, 0)}, {read(op, 1, op.type)});"


def branch(op: Op) -> str:
    return f"goto {op.operands[0].lstrip('$')};"


FAMILIES = {
    "add": arithmetic("+"), "and": logic("&"), "bra": branch, "cvt": convert,
    "cvta": lambda op: write(op, read(op, 1, "u64"), "u64"), "div": divide("/"), "fma": fused, "ld": load,
    "mad": multiply_add, "max": extreme(">"), "min": extreme("<"), "mov": move, "mul": multiply,
    "neg": negate, "not": invert, "or": logic("|"), "rem": divide("%"), "ret": lambda op: "return;",
    "selp": select, "setp": compare, "shl": shift, "shr": shift, "st": save, "sub": arithmetic("-"), "xor": logic("^"),
}  # fmt: skip


# --- the text ---


@dataclass(frozen=True)
class Entry:
    """One kernel as PTX has it."""

    name: str
    parameters: tuple[tuple[str, int], ...]  # (type, or "b8" for a struct; bytes)
    alignments: tuple[int, ...]
    body: str


ENTRY = re.compile(r"\.visible \.entry (\w+)\(\s*(.*?)\s*\)\s*(?:\.\w+[^{]*)?\{(.*?)^\}", re.S | re.M)
PARAM = re.compile(r"\.param(?: \.align (\d+))? \.(\w+) \w+(?:\[(\d+)\])?")
SIZES = {"u32": 4, "s32": 4, "b32": 4, "f32": 4, "u64": 8, "s64": 8, "b64": 8, "f64": 8, "b8": 1}


def entries(ptx: str) -> list[Entry]:
    """Every kernel of a PTX text."""
    found = []
    for name, head, body in ENTRY.findall(ptx):
        params = [(align, kind, count) for align, kind, count in PARAM.findall(head)]
        sizes = tuple((kind, SIZES[kind] * int(count or 1)) for _, kind, count in params)
        alignments = tuple(int(align or SIZES[kind]) for align, kind, _ in params)
        found.append(Entry(name, sizes, alignments, body))
    return found


def split_operands(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", text))


def statement(line: str) -> str:
    """One line of a body as C++."""
    if re.fullmatch(r"\$\w+:", line):
        return f"{line[1:]};"
    if line.startswith(".pragma"):
        return ""
    if match := re.fullmatch(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>;", line):
        return f"{C_TYPES[match[1]]} {', '.join(f'{match[2]}{i}' for i in range(int(match[3])))};"
    match = re.fullmatch(r"(?:@(!?)%(\w+)\s+)?([a-z0-9_.]+)(?:\s+(.*))?;", line)
    if not match:
        raise UnknownInstruction(f"ptx: {line}")
    name, *suffixes = match[3].split(".")
    if name not in FAMILIES:
        raise UnknownInstruction(f"ptx: {line}")
    body = FAMILIES[name](Op(name, tuple(suffixes), split_operands(match[4] or ""), line))
    return body if match[2] is None else f"if ({match[1]}{match[2]}) {{ {body} }}"


def translate(entry: Entry) -> str:
    """A kernel as a C++ function of its parameters' addresses."""
    code = []
    for line in (line.split("//")[0].strip() for line in entry.body.splitlines()):
        parts = [line] if line.endswith(":") else [f"{part.strip()};" for part in line.split(";")[:-1]]
        code += [statement(part) for part in parts if part]
    return f"static void ptx_{entry.name}(const char *const *params) {{\n{chr(10).join(code)}\n}}\n"


def check_parameters(entry: Entry, parameters: list[Parameter]) -> None:
    """What PTX expects is what the launcher passes."""
    assert len(entry.parameters) == len(parameters), entry.name
    for (kind, size), alignment, parameter in zip(entry.parameters, entry.alignments, parameters, strict=True):
        if parameter.kind == "struct":
            assert (kind, size, alignment) == ("b8", parameter.size, parameter.alignment), (entry.name, parameter)
        else:
            assert size == (8 if parameter.kind == "pointer" else parameter.dtype.itemsize), (entry.name, parameter)
            assert (kind[0] == "f") == (parameter.kind == "scalar" and parameter.dtype.kind == "f"), (entry.name, parameter)


def compile_module(code: str, options: tuple[str, ...]) -> dict[str, Compiled]:
    """Every kernel of the text, as NVRTC compiles it."""
    signed = signatures(code, options)
    kernels = {entry.name: entry for entry in entries(nvrtc.compile_ptx(code, options))}
    assert set(kernels) == set(signed)
    parts = [SHIM, HELPERS, LOOP]
    for name, entry in kernels.items():
        check_parameters(entry, signed[name])
        parts.append(translate(entry))
        parts.append(
            f'extern "C" void lnn_run_{name}(void **a, unsigned grid, unsigned block, int order) '
            f"{{ lnn_launch(grid, block, order, [&] {{ ptx_{name}((const char *const *)a); }}); }}"
        )
    flags = ["-ffp-contract=off", *(flag for flag in source_lane.FLAGS if flag != "-O1"), "-O0"]
    return {name: Compiled(build("\n".join(parts), flags), name, signed[name]) for name in kernels}
