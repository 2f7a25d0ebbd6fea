"""SQL types with Spark's names, and their representation in Arrow and in 64-bit lanes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from freshet.state.arrays import BYTES, TEXT

INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FRACTIONS = ("FLOAT", "DOUBLE")
NESTED = ("ARRAY", "STRUCT", "MAP")
#: The units of both families of intervals, from the largest on.
INTERVAL_UNITS = {"MONTHS": ("YEAR", "MONTH"), "MICROS": ("DAY", "HOUR", "MINUTE", "SECOND")}


@dataclass(frozen=True, slots=True)
class Type:
    """A SQL type. `length` bounds VARCHAR(n) and CHAR(n), whose name is STRING like any text; `char` pads to it.
    `items` has the type of an ARRAY's elements and of a MAP's values, `keys` that of a MAP's keys, `fields` those of a
    STRUCT with their names. `span` has the first and last unit of an INTERVAL; its name has the unit in which it is
    counted."""

    name: str
    precision: int = 0
    scale: int = 0
    length: int | None = None
    char: bool = False
    items: Type | None = None
    span: str = ""
    keys: Type | None = None
    fields: tuple[tuple[str, Type], ...] = ()

    @property
    def lanes(self) -> int:
        """The number of 64-bit lanes of a value: two for decimals whose digits may not fit one."""
        return 2 if self.name == "DECIMAL" and self.precision > 18 else 1

    @property
    def pooled(self) -> pa.DataType | None:
        """The Arrow type of values outside the pool, for types whose values are stored as ids of the pool: text,
        bytes, and nested values in their form as bytes (see `nested`)."""
        return (
            TEXT if self.name in ("STRING", "VARIANT") else BYTES if self.name == "BINARY" or self.is_nested else None
        )

    @property
    def is_nested(self) -> bool:
        return self.name in NESTED

    @property
    def parts(self) -> tuple[Type, ...]:
        """The types that a nested one is made of: of an ARRAY's elements, a MAP's keys and values, a STRUCT's
        fields."""
        if self.name == "STRUCT":
            return tuple(type for _, type in self.fields)
        return tuple(type for type in (self.keys, self.items) if type is not None)

    @property
    def is_ordered(self) -> bool:
        """Whether values of the type can be compared: those with a MAP in them, and VARIANTs, cannot."""
        return self.name not in ("MAP", "VARIANT") and all(part.is_ordered for part in self.parts)

    @property
    def is_numeric(self) -> bool:
        return self.name in INTEGERS or self.name in FRACTIONS or self.name == "DECIMAL"

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGERS

    @property
    def is_fraction(self) -> bool:
        return self.name in FRACTIONS

    @property
    def is_interval(self) -> bool:
        return self.name in INTERVAL_UNITS

    @property
    def units(self) -> tuple[str, ...]:
        """The units of an interval, from the largest on."""
        known, ends = INTERVAL_UNITS[self.name], self.span.split(" TO ")
        return known[known.index(ends[0]) : known.index(ends[-1]) + 1]

    def to_arrow(self) -> pa.DataType:
        if self.name == "DECIMAL":
            return pa.decimal128(self.precision, self.scale)
        if self.name == "STRUCT":
            return pa.struct([pa.field(name, type.to_arrow()) for name, type in self.fields])
        if self.name == "MAP":
            key, value = self.parts
            kind = pa.string() if key.name == "VOID" else key.to_arrow()  # Arrow's keys are not NULL
            return pa.map_(kind, value.to_arrow())
        if self.items is not None:
            return pa.list_(self.items.to_arrow())
        return _ARROW[self.name]

    def __str__(self) -> str:
        if self.name == "DECIMAL":
            return f"DECIMAL({self.precision},{self.scale})"
        if self.name == "STRUCT":
            return f"STRUCT<{', '.join(f'{quoted(name)}: {type}' for name, type in self.fields)}>"
        if self.is_nested:
            return f"{self.name}<{', '.join(map(str, self.parts))}>"
        if self.span:
            return f"INTERVAL {self.span}"
        if self.length is not None:
            return f"{'CHAR' if self.char else 'VARCHAR'}({self.length})"
        return "NULL" if self.name == "VOID" else self.name


BOOLEAN = Type("BOOLEAN")
TINYINT = Type("TINYINT")
SMALLINT = Type("SMALLINT")
INT = Type("INT")
BIGINT = Type("BIGINT")
FLOAT = Type("FLOAT")
DOUBLE = Type("DOUBLE")
STRING = Type("STRING")
BINARY = Type("BINARY")
VARIANT = Type("VARIANT")  # a value of JSON, in expressions only
DATE = Type("DATE")
TIMESTAMP = Type("TIMESTAMP")
VOID = Type("VOID")  # the type of a bare NULL
MONTHS = Type("MONTHS", span="YEAR TO MONTH")  # an INTERVAL of years and months, counted in months
MICROS = Type("MICROS", span="DAY TO SECOND")  # an INTERVAL of days to seconds, counted in microseconds


def array_of(items: Type) -> Type:
    return Type("ARRAY", items=items)


def map_of(keys: Type, values: Type) -> Type:
    return Type("MAP", items=values, keys=keys)


def struct_of(fields: Iterable[tuple[str, Type]]) -> Type:
    return Type("STRUCT", fields=tuple(fields))


def quoted(name: str) -> str:
    """A field's name as a type has it in SQL."""
    return name if name.isidentifier() else f"`{name.replace('`', '``')}`"


def interval(first: str, last: str | None = None) -> Type:
    """INTERVAL first [TO last]."""
    name = next(n for n, units in INTERVAL_UNITS.items() if first in units)
    return Type(name, span=first if last in (None, first) else f"{first} TO {last}")


def decimal(precision: int, scale: int) -> Type:
    return Type("DECIMAL", precision, scale)


_ARROW = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "VARIANT": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "VOID": pa.null(),
    "MONTHS": pa.int32(),  # Arrow's interval of months does not exist in Python
    "MICROS": pa.duration("us"),
}

#: The first and last day, and microsecond, of a DATE and a TIMESTAMP: those of the years 1 to 9999.
_DAY = 86_400_000_000
TIME_RANGE = {"DATE": (-719_162, 2_932_896), "TIMESTAMP": (-719_162 * _DAY, 2_932_897 * _DAY - 1)}

#: Least and greatest value of each integer type.
INTEGER_RANGE = {name: (-(1 << bits), (1 << bits) - 1) for name, bits in zip(INTEGERS, (7, 15, 31, 63), strict=True)}
