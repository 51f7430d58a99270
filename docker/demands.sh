# What the checks here that demand several things have in common. Sourced, not run.
patience=${PATIENCE:-240}
failures=0

# demand TEXT COMMAND...: a line that says whether the command succeeds, and after how long
demand() {
    text=$1; shift
    began=$(date +%s)
    if "$@"; then verdict=ok; else verdict=FAILED; failures=$((failures + 1)); fi
    printf '%-6s  %s (%d s)\n' "$verdict" "$text" $(($(date +%s) - began))
}
soon() { # until the command succeeds
    end=$(($(date +%s) + patience))
    until "$@"; do [ "$(date +%s)" -lt $end ] || return 1; sleep 1; done
}
every() { # the command succeeds for each of the nodes that follow it, for all of $nodes where none does
    command=$1; shift
    for each in ${*:-$nodes}; do "$command" "$each" || return 1; done
}
