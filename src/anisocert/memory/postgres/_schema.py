"""The tables of a memory in a schema, and that nothing else is in it: a trigger or a rule could answer in their place.

Whoever may create objects beside the tables, or is granted more of them than reading, is the intruder here. What the
server's administrator does is beyond what any query can see.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from anisocert.memory import _head as head
from anisocert.memory import _kinds as kinds

FORMAT: Final = "anisocert memory, format 2"  # the comment of the table `head`

_TYPES: Final = {int: "bigint", float: "double precision", str: "text", bytes: "bytea"}
_BULK: Final = ("theta", "center", "axes")  # floats, which do not compress


@cache
def _columns(table: str) -> dict[str, tuple[str, bool]]:
    """Type and whether it is required, by column."""
    columns = ({"number": (int, True)} if table == "head" else {}) | kinds.columns(table)
    return {column: (_TYPES[kind], needed) for column, (kind, needed) in columns.items()}


def create(schema: str) -> list[str]:
    """The statements that make the tables; nobody else may read them until their owner says so."""
    lines = [f'CREATE SCHEMA IF NOT EXISTS "{schema}"']
    for table in (*head.TABLES, "head"):
        parts = [f"{name} {kind}{' NOT NULL' * needed}" for name, (kind, needed) in _columns(table).items()]
        parts += ["PRIMARY KEY (number)", *(f"UNIQUE ({column})" for column in kinds.UNIQUE.get(table, ()))]
        lines.append(f'CREATE TABLE "{schema}".{table} ({", ".join(parts)})')
        for name, column in kinds.INDEXED.get(table, {}).items():
            lines.append(f'CREATE INDEX {name} ON "{schema}".{table} ({column})')
        lines.append(f'REVOKE ALL ON TABLE "{schema}".{table} FROM PUBLIC')
    for column in _BULK:
        lines.append(f'ALTER TABLE "{schema}".entries ALTER COLUMN {column} SET STORAGE EXTERNAL')
    lines.append(f"COMMENT ON TABLE \"{schema}\".head IS '{FORMAT}'")
    return lines


# Until a schema has tables, whose locks need rights, whoever makes them holds this one.
ALONE: Final = "SELECT pg_advisory_xact_lock(hashtextextended('anisocert memory ' || %s, 0))"

# How many relations a schema has, and what its table `head` says of itself; no row if there is no such schema.
STATE: Final = """
SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = n.oid),
    (SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE relnamespace = n.oid AND relname = 'head')
FROM pg_namespace n WHERE nspname = %s"""

# Everything in a schema that could decide what is read from its tables or becomes of what is written, in words.
OBJECTS: Final = """
WITH home AS (SELECT oid FROM pg_namespace WHERE nspname = %s),
kin AS (SELECT c.* FROM pg_class c JOIN home ON c.relnamespace = home.oid)
SELECT 'format', obj_description(oid, 'pg_class'), '' FROM kin WHERE relname = 'head'
UNION ALL SELECT 'relation', relname, concat_ws(' ', relkind, relpersistence, amname, relrowsecurity,
    relforcerowsecurity, relispartition, reloftype) FROM kin LEFT JOIN pg_am a ON a.oid = relam
UNION ALL SELECT 'column', relname || '.' || attname, concat_ws(' ', attnum, atttypid::regtype, attnotnull, atthasdef,
    attidentity <> '', attgenerated <> '') FROM pg_attribute JOIN kin ON attrelid = oid
    WHERE relkind <> 'i' AND attnum > 0 AND NOT attisdropped
UNION ALL SELECT 'index', kin.relname, concat_ws(' ', t.relname, (SELECT string_agg(attname, ' ') FROM pg_attribute
    WHERE attrelid = indrelid AND attnum = ANY (indkey)), (SELECT string_agg(opcname, ' ') FROM pg_opclass
    WHERE oid = ANY (indclass)), indnatts, indisunique, indisprimary, indisvalid AND indisready AND indislive,
    indimmediate, indexprs IS NULL AND indpred IS NULL)
    FROM pg_index JOIN kin ON indexrelid = kin.oid JOIN pg_class t ON indrelid = t.oid
UNION ALL SELECT 'constraint', conname, concat_ws(' ', relname, contype, condeferrable)
    FROM pg_constraint JOIN kin ON conrelid = kin.oid WHERE contype <> 'n'
UNION ALL SELECT 'trigger', tgname, relname FROM pg_trigger JOIN kin ON tgrelid = kin.oid
UNION ALL SELECT 'rule', rulename, relname FROM pg_rewrite JOIN kin ON ev_class = kin.oid
UNION ALL SELECT 'policy', polname, relname FROM pg_policy JOIN kin ON polrelid = kin.oid
UNION ALL SELECT 'inheritance', relname, '' FROM pg_inherits JOIN kin ON kin.oid IN (inhrelid, inhparent)
"""


@cache
def _expected() -> frozenset[tuple[str, str, str]]:
    """What OBJECTS finds in a schema that `create` has made."""
    objects = [("format", FORMAT, "")]
    for table in (*head.TABLES, "head"):
        objects.append(("relation", table, "r p heap f f f 0"))
        columns = _columns(table)
        for i, (name, (kind, needed)) in enumerate(columns.items(), 1):
            objects.append(("column", f"{table}.{name}", f"{i} {kind} {'t' if needed else 'f'} f f f"))
        indexes = [(f"{table}_pkey", "number", "t t")]
        indexes += [(f"{table}_{column}_key", column, "t f") for column in kinds.UNIQUE.get(table, ())]
        for name, _, unique in indexes:
            objects.append(("constraint", name, f"{table} {'p' if unique == 't t' else 'u'} f"))
        indexes += [(name, column, "f f") for name, column in kinds.INDEXED.get(table, {}).items()]
        for name, column, unique in indexes:
            operator_class = "int8_ops" if columns[column][0] == "bigint" else "bytea_ops"
            objects.append(("relation", name, "i p btree f f f 0"))
            objects.append(("index", name, f"{table} {column} {operator_class} 1 {unique} t t t"))
    return frozenset(objects)


def check(schema: str, found: set[tuple[str, str, str]]) -> None:
    """An error unless OBJECTS has found the tables of a memory, and nothing else."""
    kinds.expect_tables(f"the schema {schema}", found, _expected())
