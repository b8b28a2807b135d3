#!/usr/bin/env bash
# Stops what up.sh started, by the pids it noted, and what others stand on last. --wipe: removes LAB_DIR, too. Called by
# `make openstack-lab-down`. The packages stay installed.
set -uo pipefail
. "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/env.sh"
names=$(ls -t "$LAB_RUN"/*.pid 2>/dev/null | xargs -rn1 basename -s .pid)
# Each leads a process group of its own, whose workers end with it.
stop() { # SIGNAL NAME
    local pid; read -r pid _ <"$LAB_RUN/$2.pid"; kill -"$1" -- "-$pid" 2>/dev/null
}
# Services first, then what they stand on.
back=" mariadb rabbitmq epmd memcached ovsdb ovn-net root "
first= last=
for n in $names; do case $back in *" $n "*) last+=" $n";; *) first+=" $n";; esac; done
for set in "$first" "$last"; do
    for n in $set; do lab_alive "$n" && stop TERM "$n"; done
    end=$((SECONDS + 15))
    for n in $set; do while lab_alive "$n" && [ $SECONDS -lt $end ]; do sleep 0.1; done; done
    for n in $set; do
        lab_alive "$n" && { echo "$n did not stop in time: killed" >&2; stop KILL "$n"; }
        rm -f "$LAB_RUN/$n.pid"
    done
done
if [ "${1:-}" = --wipe ]; then
    case $LAB_DIR in /|""|/root|/home|/tmp) echo "will not remove $LAB_DIR" >&2; exit 1;; esac
    [ -d "$LAB_RUN" ] && rm -rf "$LAB_DIR"
fi
exit 0
