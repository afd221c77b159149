/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a file to a checked descriptor.
 *
 * The file's owner and mode are checked before it is opened, since opening runs its constructors.
 * The checks come in the order of qn/abi.h, and each refusal names both values. What a module was
 * built with may be older and smaller than what the core knows: it is copied into a zeroed struct of
 * full size. A file once opened stays mapped until the process ends, also a refused one.
 */
#include "error.h"
#include "module.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* sizeof(struct qn_module) of version 1.0: no module is smaller. */
#define DESCRIPTOR_MIN (offsetof(struct qn_module, unload) + sizeof(void (*)(void *)))

static int check_file(const char *path, struct qn_error *e)
{
	struct stat st;

	if (path[0] != '/') {
		return QN_FAIL(e, QN_INVALID, "%s: a module's path must be absolute", path);
	}
	if (stat(path, &st) != 0) {
		return QN_FAIL(e, QN_MISSING, "%s: %s", path, strerror(errno));
	}
	if (!S_ISREG(st.st_mode)) {
		return QN_FAIL(e, QN_DENIED, "%s: not a regular file", path);
	}
	if (st.st_uid != 0 && st.st_uid != geteuid()) {
		return QN_FAIL(e, QN_DENIED, "%s: owned by user %u, expected 0 or %u", path, (unsigned)st.st_uid,
		               (unsigned)geteuid());
	}
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
		return QN_FAIL(e, QN_DENIED, "%s: mode %04o lets others write, expected at most 0755", path,
		               (unsigned)(st.st_mode & 07777));
	}
	return QN_OK;
}

static int check_abi(const struct qn_module *d, struct qn_error *e)
{
	if (d->magic != QN_ABI_MAGIC) {
		return QN_FAIL(e, QN_ABI, "magic is 0x%08x, expected 0x%08x", d->magic, QN_ABI_MAGIC);
	}
	if (d->abi_major != QN_ABI_MAJOR) {
		return QN_FAIL(e, QN_ABI, "ABI major is %u, expected %u", d->abi_major, QN_ABI_MAJOR);
	}
	if (d->abi_minor > QN_ABI_MINOR) {
		return QN_FAIL(e, QN_ABI, "ABI minor is %u, the core has %u", d->abi_minor, QN_ABI_MINOR);
	}
	if (d->size < DESCRIPTOR_MIN) {
		return QN_FAIL(e, QN_ABI, "descriptor size is %u, expected at least %zu", d->size, DESCRIPTOR_MIN);
	}
	if (d->build_sig == NULL || strcmp(d->build_sig, QN_BUILD_SIG) != 0) {
		return QN_FAIL(e, QN_ABI, "build signature is \"%s\", expected \"%s\"",
		               d->build_sig != NULL ? d->build_sig : "", QN_BUILD_SIG);
	}
	if (d->op_size != sizeof(struct qn_op)) {
		return QN_FAIL(e, QN_ABI, "op size is %u, expected %zu", d->op_size, sizeof(struct qn_op));
	}
	return QN_OK;
}

static int check_identity(const struct qn_module_want *want, const struct qn_module *d, struct qn_error *e)
{
	if (d->name == NULL || d->version == NULL || d->kind == NULL || d->load == NULL) {
		return QN_FAIL(e, QN_ABI, "name, version, kind or load is missing");
	}
	if (want->name != NULL && strcmp(want->name, d->name) != 0) {
		return QN_FAIL(e, QN_ABI, "module is named \"%s\", expected \"%s\"", d->name, want->name);
	}
	if (strcmp(want->kind, d->kind) != 0) {
		return QN_FAIL(e, QN_ABI, "kind is \"%s\", expected \"%s\"", d->kind, want->kind);
	}
	return QN_OK;
}

int qn_module_open(const struct qn_module_want *want, struct qn_module *out, struct qn_error *e)
{
	const struct qn_module *d;
	qn_module_entry_fn *entry;
	void *so, *symbol;
	int rc = check_file(want->path, e);

	if (rc != QN_OK) {
		return rc;
	}
	so = dlopen(want->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (so == NULL) {
		return QN_FAIL(e, QN_ABI, "%s: %s", want->path, dlerror());
	}
	symbol = dlsym(so, "qn_module_entry");
	if (symbol == NULL) {
		return QN_FAIL(e, QN_ABI, "%s: exports no qn_module_entry", want->path);
	}
	/* ISO C has no cast from an object to a function pointer. */
	memcpy(&entry, &symbol, sizeof(entry));
	d = entry();
	if (d == NULL) {
		return QN_FAIL(e, QN_ABI, "%s: qn_module_entry returned NULL, expected a descriptor", want->path);
	}
	rc = check_abi(d, e);
	if (rc == QN_OK) {
		memset(out, 0, sizeof(*out));
		memcpy(out, d, d->size < sizeof(*out) ? d->size : sizeof(*out));
		rc = check_identity(want, out, e);
	}
	if (rc != QN_OK) {
		qn_error_prefix(e, "%s", want->path);
	}
	return rc;
}

const char *qn_module_dir(const char *option, struct qn_arena *a)
{
	char exe[PATH_MAX], *slash;
	ssize_t n;

	if (option[0] != '\0') {
		return option;
	}
	n = readlink("/proc/self/exe", exe, sizeof(exe) - sizeof("/modules"));
	if (n > 0) {
		exe[n] = '\0';
		slash = strrchr(exe, '/');
		memcpy(slash, "/modules", sizeof("/modules"));
		if (access(exe, X_OK) == 0) {
			return qn_arena_dup(a, (struct qn_span){exe, strlen(exe)}).p;
		}
	}
	return QN_MODULE_DIR;
}
