# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts of this folder: a fixed tool environment and the build. Debian's own tools
# come first whatever else is installed; what a shell happens to export about Python, compilers or
# the language has no influence. Sets `root` (the checkout) and `build` (the build directory).

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build=${QN_BUILD_DIR:-$root/build}

export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C.UTF-8
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PYENV_VERSION CFLAGS CPPFLAGS LDFLAGS LD_LIBRARY_PATH LD_PRELOAD \
	PKG_CONFIG_PATH PKG_CONFIG_LIBDIR DESTDIR NINJA_STATUS
python=/usr/bin/python3

say() {
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
}

die() {
	say "$@"
	exit 1
}

# configure_build DIR COMPILER [meson options]: makes DIR a build directory, whatever it was before.
configure_build() {
	local dir=$1 compiler=$2
	shift 2
	mkdir -p "$dir" 2>/dev/null || die "cannot create $dir"
	[ -w "$dir" ] || die "$dir belongs to another user; set QN_BUILD_DIR to a directory of your own"
	if [ -f "$dir/build.ninja" ] && [ "$(cat "$dir/.root" 2>/dev/null)" = "$root" ]; then
		return
	fi
	rm -rf "$dir/meson-private" "$dir/meson-info" "$dir/meson-logs" "$dir/build.ninja"
	CC=$compiler CC_LD=bfd /usr/bin/meson setup "$@" "$dir" "$root" >"$dir/setup.log" 2>&1 || {
		cat "$dir/setup.log" >&2
		die "meson setup failed"
	}
	echo "$root" >"$dir/.root"
}

# build_queend broker|all: brings the build of this checkout up to date, one script at a time. "broker"
# leaves the tests out.
build_queend() {
	say "building in $build"
	mkdir -p "$build" 2>/dev/null || die "cannot create $build"
	[ -w "$build" ] || die "$build belongs to another user; set QN_BUILD_DIR to a directory of your own"
	(
		flock 9
		configure_build "$build" /usr/bin/gcc
		local targets=(all)
		if [ "$1" = broker ]; then
			ninja -C "$build" build.ninja >"$build/ninja.log" 2>&1 || {
				cat "$build/ninja.log" >&2
				die 'meson failed'
			}
			mapfile -t targets < <(ninja -C "$build" -t targets all | sed -nE 's,^(queend|(modules|plugins)/[^ ]*\.so):.*,\1,p')
		fi
		ninja -C "$build" "${targets[@]}" >"$build/ninja.log" 2>&1 || {
			cat "$build/ninja.log" >&2
			die 'the build failed'
		}
	) 9>"$build/.lock"
}

free_port() {
	"$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
