#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A module exports qn_module_entry and nothing else.
set -eu
found=$(nm -D --defined-only "$1" | awk '{print $NF}')
if [ "$found" != qn_module_entry ]; then
	echo "$1 exports: $found" >&2
	exit 1
fi
