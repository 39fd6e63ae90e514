# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Nothing may outlive a test run: no process, no socket, no file, no shared-memory object.
#
#   leftovers_begin    gives the run its own identity and folders; export before the first test starts
#   leftovers_check    prints what is left, one line each; non-zero when something is
#   leftovers_end      ends what is left (only what this run started) and removes the run's folders
#
# A process belongs to the run when SPYRE_RUN_ID with the run's value stands in the environment it was started with:
# inherited by every child, whoever its parent is by now. Files belong to it because TMPDIR and XDG_RUNTIME_DIR are its
# own. Runs of other people on the same machine are not seen.

leftovers_begin() {
  leftovers_dir=$(mktemp -d "${TMPDIR:-/tmp}/spyre-run.XXXXXXXX")
  mkdir -m 0700 "$leftovers_dir/tmp" "$leftovers_dir/runtime"
  leftovers_shm_before=$(leftovers_shm)
  export SPYRE_RUN_ID=${leftovers_dir##*/}.$$
  export TMPDIR=$leftovers_dir/tmp XDG_RUNTIME_DIR=$leftovers_dir/runtime
}

# Processes started by the run and not ended. The search must not find its own programs: they start without the mark.
leftovers_processes() (
  mark="SPYRE_RUN_ID=$SPYRE_RUN_ID"
  unset SPYRE_RUN_ID
  { grep -lszxF -e "$mark" /proc/[0-9]*/environ || true; } | sed 's|^/proc/\([0-9]*\)/environ$|\1|'
)

# A short wait without a process of its own.
leftovers_pause() { read -r -t 0.1 <> <(:) || true; }

leftovers_shm() { find /dev/shm -maxdepth 1 \( -name 'spyre*' -o -name 'flex*' -o -name 'qemu*' \) 2>/dev/null | sort; }

leftovers_describe() {
  local pid
  for pid in $(leftovers_processes); do
    printf 'process %s: %s\n' "$pid" "$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | cut -c 1-160)"
  done
  # The runtime folder itself stays where it was made, for the cards to come; what is in it does not.
  find "$leftovers_dir/tmp" "$leftovers_dir/runtime" -mindepth 1 \
    ! \( -path "$leftovers_dir/runtime/spyre" -type d -empty \) -printf 'file (%y): %p\n'
  comm -13 <(printf '%s\n' "$leftovers_shm_before") <(leftovers_shm) | sed '/^$/d; s/^/shared memory: /'
}

# An emulator is ended by its reaper, a moment after its owner: look again for up to two seconds before complaining.
leftovers_check() {
  local deadline=$((SECONDS + 2)) found
  while found=$(leftovers_describe); [[ $found ]] && ((SECONDS < deadline)); do leftovers_pause; done
  [[ ! $found ]] || { printf '%s\n' "$found"; return 1; }
}

leftovers_end() {
  local pid deadline=$((SECONDS + 5))
  [[ ${leftovers_dir-} ]] || return 0
  while ((SECONDS < deadline)); do
    pid=$(leftovers_processes)
    [[ $pid ]] || break
    # shellcheck disable=SC2086  # one word per process
    kill -KILL $pid 2>/dev/null || true
    leftovers_pause
  done
  rm -rf "$leftovers_dir"
}
