# What the scripts that run tests have in common: how a test ends, and how that is told.

# Ends every process that has this run's folder in its environment, even those that left our group.
end_leftovers() {
    local environ pid
    for environ in /proc/[0-9]*/environ; do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        if { tr '\0' '\n' <"$environ" | grep -qxE "(INTEROP_DIR|REJOIN_AGENT_RUN)=$1"; } 2>/dev/null; then
            kill -KILL "$pid" 2>/dev/null || true
        fi
    done
}

passed=0
failed=0

# Says how a test went: its name, its exit code, when it began, its output. Fails if it did.
verdict() {
    local took checks
    took=$(((${EPOCHREALTIME/[.,]/} - $3) / 1000))
    checks=$(grep -c '^ok - ' "$4" || true)
    if (($2 == 0 && checks > 0)); then
        passed=$((passed + 1))
        echo "ok    $1: $checks checks, $took ms"
        return
    fi
    failed=$((failed + 1))
    echo "FAIL  $1: exit code $2, $took ms"
    sed 's/^/      /' "$4"
    return 1
}

# Says how all of them went. Fails if one did.
summary() {
    echo "$passed passed, $failed failed"
    ((failed == 0))
}
