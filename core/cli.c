/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: what it says, and the questions that are answered without starting.
 *
 * A mistake is refused with the usage and exit status 2; it never becomes a default.
 */
#include "error.h"
#include "options.h"
#include "process.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
	"usage: queend [--config FILE] [--set SECTION.KEY=VALUE]... [ACTION]\n"
	"\n"
	"  --config FILE            read FILE; without it ./module.conf or the installed one, if there\n"
	"  --set SECTION.KEY=VALUE  override one option, also its environment variable\n"
	"                           (storage.use=storage_pg, \"plugin NAME.key=value\")\n"
	"\n"
	"actions:\n"
	"  --check-config           check the configuration and end\n"
	"  --dump-config            print the effective configuration as module.conf, without secrets\n"
	"  --list-options           print every option as Markdown tables\n"
	"  --version                print the version\n"
	"  --help                   print this\n";

static const struct {
	const char *name;
	int action;
} actions[] = {
	{"--check-config", QN_CHECK_CONFIG},
	{"--dump-config", QN_DUMP_CONFIG},
	{"--list-options", QN_LIST_OPTIONS},
	{"--version", QN_VERSION_ONLY},
	{"--help", QN_HELP},
};

static int refuse(const char *what, const char *argument)
{
	(void)fprintf(stderr, "queend: %s: %s\n\n%s", what, argument, usage);
	return 2;
}

/* The value of "--name VALUE" or "--name=VALUE"; NULL when the argument is another one. */
static const char *value_of(const char *name, int argc, char **argv, int *i)
{
	size_t n = strlen(name);

	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): argv holds argc strings, and *i < argc */
	if (strncmp(argv[*i], name, n) != 0) {
		return NULL;
	}
	if (argv[*i][n] == '=') {
		return argv[*i] + n + 1;
	}
	if (argv[*i][n] != '\0' || *i + 1 >= argc) {
		return NULL;
	}
	return argv[++*i];
}

static bool find_action(const char *argument, struct qn_arguments *out)
{
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(argument, actions[i].name) == 0) {
			out->action = actions[i].action;
			return true;
		}
	}
	return false;
}

int qn_arguments_parse(int argc, char **argv, const char **sets, struct qn_arguments *out)
{
	bool acts = false;

	memset(out, 0, sizeof(*out));
	out->sets = sets;
	for (int i = 1; i < argc; i++) {
		const char *argument = argv[i], *value = value_of("--config", argc, argv, &i);

		if (value != NULL) {
			out->config = value;
			continue;
		}
		value = value_of("--set", argc, argv, &i);
		if (value != NULL) {
			sets[out->set_count++] = value;
			continue;
		}
		if (!find_action(argument, out)) {
			return refuse("unknown or incomplete argument", argument);
		}
		if (acts) {
			return refuse("one action at a time", argument);
		}
		acts = true;
	}
	return 0;
}

static void dump(const struct qn_process *p)
{
	(void)puts("[core]");
	qn_table_dump(&qn_core_table, &p->app.options, stdout);
	for (size_t i = 0; i < p->modules.count; i++) {
		const struct qn_mod *m = p->modules.mods[i];
		struct qn_table table = qn_mod_table(m);

		(void)printf("\n[%s]\nuse = %s\n", m->section, qn_compose_use(&p->conf, m->section));
		qn_table_dump(&table, m->options, stdout);
	}
}

static void list(const struct qn_process *p)
{
	qn_table_list(&qn_core_table, NULL, stdout);
	for (size_t i = 0; i < p->modules.count; i++) {
		struct qn_table table = qn_mod_table(p->modules.mods[i]);

		qn_table_list(&table, p->modules.mods[i]->d.doc, stdout);
	}
}

int qn_arguments_answer(struct qn_process *p)
{
	struct qn_error e = {0};

	if (p->args->action == QN_HELP) {
		(void)fputs(usage, stdout);
		return 0;
	}
	if (p->args->action == QN_VERSION_ONLY) {
		(void)printf("queend %s (module ABI %d.%d)\n", QN_VERSION, QN_ABI_MAJOR, QN_ABI_MINOR);
		return 0;
	}
	if (qn_process_compose(p, &e) != QN_OK) {
		(void)fprintf(stderr, "queend: %s\n", e.msg);
		return 1;
	}
	if (p->args->action == QN_DUMP_CONFIG) {
		dump(p);
	} else if (p->args->action == QN_LIST_OPTIONS) {
		list(p);
	} else {
		(void)puts("configuration ok");
	}
	qn_compose_unload(&p->modules);
	return 0;
}
