# SPDX-License-Identifier: Apache-2.0
"""Just enough of libpq for the tests: one session, text parameters, arrays, typed results."""
import ctypes
import ctypes.util

_lib = ctypes.CDLL(ctypes.util.find_library("pq") or "libpq.so.5")
_lib.PQconnectdb.restype = ctypes.c_void_p
_lib.PQconnectdb.argtypes = [ctypes.c_char_p]
_lib.PQexecParams.restype = ctypes.c_void_p
_lib.PQexecParams.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p,
                              ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
_lib.PQgetvalue.restype = ctypes.c_void_p
for _name in ("PQerrorMessage", "PQresultErrorMessage", "PQfname", "PQresultErrorField"):
    getattr(_lib, _name).restype = ctypes.c_char_p
for _name, _args in {"PQstatus": 1, "PQerrorMessage": 1, "PQfinish": 1, "PQresultStatus": 1, "PQclear": 1,
                     "PQresultErrorMessage": 1, "PQntuples": 1, "PQnfields": 1}.items():
    getattr(_lib, _name).argtypes = [ctypes.c_void_p] * _args
for _name in ("PQfname", "PQftype", "PQresultErrorField"):
    getattr(_lib, _name).argtypes = [ctypes.c_void_p, ctypes.c_int]
for _name in ("PQgetvalue", "PQgetisnull", "PQgetlength"):
    getattr(_lib, _name).argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]

_SQLSTATE = ord("C")


class Error(Exception):
    """A refused statement."""

    def __init__(self, sqlstate, message):
        super().__init__("%s %s" % (sqlstate, message.strip()))
        self.sqlstate = sqlstate


def _quote(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def encode(value):
    """The text form of a parameter."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, (list, tuple)):
        return "{" + ",".join("NULL" if v is None else _quote(encode(v)) for v in value) + "}"
    return str(value)


def _ints(text):
    return [int(v) for v in text.strip("{}").split(",") if v != ""]


def _byteas(text):
    return [bytes.fromhex(v.strip('"')[3:]) for v in text.strip("{}").split(",") if v != ""]


_DECODERS = {16: lambda t: t == "t", 17: lambda t: bytes.fromhex(t[2:]), 20: int, 21: int, 23: int, 26: int,
             1700: float, 701: float, 1001: _byteas, 1007: _ints, 1016: _ints}


class Session:
    """One connection. Not shared between threads at a time; the interpreter lock is free during a statement."""

    def __init__(self, conninfo):
        self._conn = _lib.PQconnectdb(conninfo.encode())
        if _lib.PQstatus(self._conn) != 0:
            message = _lib.PQerrorMessage(self._conn).decode()
            _lib.PQfinish(self._conn)
            raise Error("08001", message)

    def close(self):
        _lib.PQfinish(self._conn)
        self._conn = None

    def run(self, sql, *params):
        """Rows as dictionaries."""
        values = [encode(p) for p in params]
        array = (ctypes.c_char_p * max(len(values), 1))(*[None if v is None else v.encode() for v in values])
        result = _lib.PQexecParams(self._conn, sql.encode(), len(values), None, array, None, None, 0)
        try:
            return self._rows(result)
        finally:
            _lib.PQclear(result)

    def one(self, sql, *params):
        """The only value of the only row."""
        (row,) = self.run(sql, *params)
        (value,) = row.values()
        return value

    @staticmethod
    def _rows(result):
        if _lib.PQresultStatus(result) not in (1, 2):
            state = _lib.PQresultErrorField(result, _SQLSTATE)
            raise Error(state.decode() if state else "", _lib.PQresultErrorMessage(result).decode())
        columns = range(_lib.PQnfields(result))
        names = [_lib.PQfname(result, c).decode() for c in columns]
        decoders = [_DECODERS.get(_lib.PQftype(result, c), str) for c in columns]
        rows = []
        for r in range(_lib.PQntuples(result)):
            row = {}
            for c in columns:
                if _lib.PQgetisnull(result, r, c):
                    row[names[c]] = None
                else:
                    raw = ctypes.string_at(_lib.PQgetvalue(result, r, c), _lib.PQgetlength(result, r, c))
                    row[names[c]] = decoders[c](raw.decode())
            rows.append(row)
        return rows
