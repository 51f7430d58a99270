# Functions of the checks here that make several demands. Sourced, not run.
patience=${PATIENCE:-240}
failures=0

# demand TEXT COMMAND...: prints a line that says whether the command succeeds, and after how long
demand() {
    text=$1; shift
    began=$(date +%s)
    if "$@"; then verdict=ok; else verdict=FAILED; failures=$((failures + 1)); fi
    printf '%-6s  %s (%d s)\n' "$verdict" "$text" $(($(date +%s) - began))
}
soon() { # tries the command until it succeeds, for $patience seconds
    end=$(($(date +%s) + patience))
    until "$@"; do [ "$(date +%s)" -lt $end ] || return 1; sleep 1; done
}
every() { # the command succeeds for each node named after it, or for all of $nodes if none is named
    command=$1; shift
    for each in ${*:-$nodes}; do "$command" "$each" || return 1; done
}
