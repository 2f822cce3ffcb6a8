# Sourced by the scripts of deploy/: messages, and long commands shown as one moving line. All of it goes to stderr, so
# that a script's stdout stays free for what it answers.

say() { printf '%s\n' "$*" >&2; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# run_quietly TITLE LOG COMMAND...: runs COMMAND with its output in LOG, showing the last line of it (on a terminal) or the
# ninja counter every 20 seconds (elsewhere). COMMAND gets SIGTERM when this shell dies, however it dies.
run_quietly() {
  local title=$1 log=$2 start=$SECONDS; shift 2
  if setpriv --pdeathsig TERM "$@" 2>&1 </dev/null | show_progress "$title" "$log"; then
    say "$title: done in $((SECONDS - start)) s"
  else
    tail -n 25 "$log" >&2
    fail "$title failed after $((SECONDS - start)) s; the whole output is in $log"
  fi
}

show_progress() {
  local title=$1 log=$2 line start=$SECONDS shown=-20
  : >"$log"
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    if [ -t 2 ]; then
      printf '\r\033[K%.100s' "$title ($((SECONDS - start)) s) $line" >&2
    elif [[ $line == \[*/*\]* ]] && [ $((SECONDS - shown)) -ge 20 ]; then
      shown=$SECONDS; say "$title ($((SECONDS - start)) s) ${line%%]*}]"
    fi
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}
