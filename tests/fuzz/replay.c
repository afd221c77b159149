/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over files instead of under the fuzzer, so that every compiler and every test
 * run covers the seeds.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

static int run(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *p;
	long size;

	if (f == NULL || fseek(f, 0, SEEK_END) != 0) {
		return 1;
	}
	size = ftell(f);
	rewind(f);
	p = malloc(size > 0 ? (size_t)size : 1);
	if (size < 0 || p == NULL || fread(p, 1, (size_t)size, f) != (size_t)size) {
		return 1;
	}
	(void)fclose(f);
	(void)LLVMFuzzerTestOneInput(p, (size_t)size);
	free(p);
	return 0;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (run(argv[i]) != 0) {
			(void)fprintf(stderr, "cannot read %s\n", argv[i]);
			return 1;
		}
	}
	return argc > 1 ? 0 : 1;
}
