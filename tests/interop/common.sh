# What the scripts that run tests have in common: how tests run side by side, how one ends, and how that
# is told.

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

# Says how a test went: its name, its exit code, when it began, its output. Fails if it did.
verdict() {
    local took checks
    took=$(((${EPOCHREALTIME/[.,]/} - $3) / 1000))
    checks=$(grep -c '^ok - ' "$4" || true)
    if (($2 == 0 && checks > 0)); then
        echo "ok    $1: $checks checks, $took ms"
        return
    fi
    echo "FAIL  $1: exit code $2, $took ms"
    sed 's/^/      /' "$4"
    return 1
}

# Runs `one NAME` for each of these names, which prints how the test went and fails if it did: as many
# at once as there are processors, in the folder $1. Fails if one did.
side_by_side() {
    local reports=$1 name failed
    shift
    for name; do
        while (($(jobs -pr | wc -l) >= $(nproc))); do wait -n || true; done
        {
            one "$name" >"$reports/$name.report" 2>&1 || touch "$reports/$name.failed"
            cat "$reports/$name.report"
        } &
    done
    wait
    failed=$(find "$reports" -maxdepth 1 -name '*.failed' | wc -l)
    echo "$(($# - failed)) passed, $failed failed"
    ((failed == 0))
}
