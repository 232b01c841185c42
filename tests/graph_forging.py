"""Files of programs with a right checksum over wrong words, for the tests of loading."""

from __future__ import annotations

import json
from zlib import crc32

from lean_nn.graph import files

HOSTILE = [
    None, True, -1, 0, 1, 3, 2**31, 2**62, 2**63, 10**40, 0.5, 1e308, "", "F64", "conv", [], [0], [[]], [-1, -1],
    [2**62, 2**62], {}, {"float": "nan"}, {"Bins": [[0, 0]]}, {"Bins": [[2**40, 2**40]]}, {"Window": []}, {"tuple": []}, "*",
]  # fmt: skip


def parts(data):
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    return json.loads(metadata["graph"]), header, data[8 + length :]


def forge(graph, table, data, **metadata):
    """A file with a right checksum, whatever it says."""
    text = graph if isinstance(graph, str) else json.dumps(graph)
    crc = crc32(data, crc32(json.dumps([text, table], sort_keys=True).encode()))
    metadata = {"format": files.FORMAT, "graph": text, "crc32": f"{crc:08x}", **metadata}
    header = json.dumps({"__metadata__": metadata, **table}).encode()
    header = header.ljust(-(-(8 + len(header)) // 64) * 64 - 8)
    return len(header).to_bytes(8, "little") + header + data


def set_at(part, key, value):
    part[key] = value


def places(part, found):
    """Every slot of a JSON text: (container, key)."""
    for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
        found.append((part, key))
        if isinstance(inner, (dict, list)):
            places(inner, found)
    return found
