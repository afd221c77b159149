# SPDX-License-Identifier: Apache-2.0
"""Writes a C file that holds the SQL files of a folder, in lexical order, with their SHA-256, and a depfile."""
import glob
import hashlib
import os
import sys


def main(out_path, dep_path, folder):
    sources = glob.glob(os.path.join(folder, "*.sql"))
    with open(dep_path, "w", encoding="utf-8") as dep:
        # The folder itself too: a new file changes it.
        dep.write("%s: %s\n" % (out_path, " ".join([folder] + sources)))
    with open(out_path, "w", encoding="utf-8") as out:
        out.write('/* Generated from sql/. */\n#include "schema.h"\n\n')
        rows = []
        for i, path in enumerate(sorted(sources, key=os.path.basename)):
            with open(path, "rb") as f:
                data = f.read()
            out.write("static const char text_%d[] = {\n" % i)
            for at in range(0, len(data), 24):
                out.write("\t" + " ".join("%d," % (b if b < 128 else b - 256) for b in data[at:at + 24]) + "\n")
            out.write("\t0};\n")
            rows.append('\t{"%s", "%s", text_%d},\n' % (os.path.basename(path), hashlib.sha256(data).hexdigest(), i))
        out.write("\nconst struct qn_pg_sql_file qn_pg_sql_files[] = {\n%s\t{0}};\n" % "".join(rows))


main(*sys.argv[1:])
