#!/usr/bin/env bash
# Connects network namespaces to the networks of a lab with packets, so that processes in them are what servers would be.
#
#   port.sh attach PID NAME PORT MAC ADDRESS/PREFIX [GATEWAY]
#   port.sh outside PID NAME MAC ADDRESS/PREFIX [GATEWAY]
#   port.sh detach NAME
#
# attach gives the network namespace of a process the interface of a Neutron port that is bound to the lab's first compute host. outside
# connects it to the external network instead. NAME is the interface's in the switch, of at most 15 characters.
set -euo pipefail
. "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/env.sh"
lab_enter
vsctl() { "${enter[@]}" ovs-vsctl --db="unix:$LAB_OVN/db.sock" --timeout=30 "$@"; }
connect() { # PID NAME MAC ADDRESS GATEWAY
    local net; read -r net _ <"$LAB_RUN/ovn-net.pid"
    nsenter "--net=/proc/$net/ns/net" ip link add "$2" type veth peer name eth0 netns "$1"
    nsenter "--net=/proc/$net/ns/net" ip link set "$2" up
    local inside=(nsenter "--net=/proc/$1/ns/net")
    "${inside[@]}" ip link set lo up
    "${inside[@]}" ip link set eth0 address "$3"
    "${inside[@]}" ip link set eth0 up
    "${inside[@]}" ip addr add "$4" dev eth0
    # Checksums are left to a device that there is not; the user space of Open vSwitch sees the packets without.
    "${enter[@]}" "--net=/proc/$1/ns/net" ethtool -K eth0 tx off >/dev/null
    [ -z "$5" ] || "${inside[@]}" ip route add default via "$5"
}
case $1 in
attach)
    connect "$2" "$3" "$5" "$6" "${7:-}"
    vsctl add-port br-int "$3" -- set interface "$3" "external_ids:iface-id=$4";;
outside)
    connect "$2" "$3" "$4" "$5" "${6:-}"
    vsctl add-port br-ex "$3";;
detach) vsctl --if-exists del-port "$2";;
*) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2;;
esac
