# Settings of the lab; each can be given in the environment. Sourced by up.sh and down.sh.
export LAB_HERE; LAB_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export LAB_DIR=${LAB_DIR:-$(cd "$LAB_HERE/../.." && pwd)/bin/openstack-lab}
# zed: Debian 12's, whose packages are installed on the machine itself. 2025.1: Debian 13's, 2026.2: Debian unstable's, each in a root
# of its own below LAB_DIR, with OVN, so that packets flow.
export LAB_RELEASE=${LAB_RELEASE:-zed}
export LAB_MIRROR=${LAB_MIRROR:-http://deb.debian.org/debian}
export LAB_HOST=${LAB_HOST:-127.0.0.1}
export LAB_REGION=${LAB_REGION:-RegionOne}
export LAB_PASSWORD=${LAB_PASSWORD:-lab}
export LAB_KEYSTONE_PORT=${LAB_KEYSTONE_PORT:-5000}
export LAB_PLACEMENT_PORT=${LAB_PLACEMENT_PORT:-8778}
export LAB_NOVA_PORT=${LAB_NOVA_PORT:-8774}
export LAB_NEUTRON_PORT=${LAB_NEUTRON_PORT:-9696}
export LAB_GLANCE_PORT=${LAB_GLANCE_PORT:-9292}
export LAB_OCTAVIA_PORT=${LAB_OCTAVIA_PORT:-9876}
export LAB_HEALTH_PORT=${LAB_HEALTH_PORT:-15677}
export LAB_BARBICAN_PORT=${LAB_BARBICAN_PORT:-9311}
export LAB_RABBIT_PORT=${LAB_RABBIT_PORT:-15673}
export LAB_RABBIT_DIST_PORT=${LAB_RABBIT_DIST_PORT:-15674}
export LAB_EPMD_PORT=${LAB_EPMD_PORT:-15675}
export LAB_MEMCACHED_PORT=${LAB_MEMCACHED_PORT:-15676}
# Pairs of host and availability zone, with a nova-compute process each.
export LAB_COMPUTES=${LAB_COMPUTES:-compute-a:az-a compute-b:az-b}
# fast: amphorae are imaginary, and a load balancer is ACTIVE in seconds. nova: each is a (fake) server, by compute_nova_driver of
# Octavia's own; slower. agent: each forwards packets, by Octavia's own agent and haproxy in namespaces; with OVN only.
export LAB_AMPHORA=${LAB_AMPHORA:-$([ "$LAB_RELEASE" = zed ] && echo fast || echo agent)}
export LAB_PUBLIC_CIDR=${LAB_PUBLIC_CIDR:-198.18.0.0/16}
export LAB_AUTH_URL=http://$LAB_HOST:$LAB_KEYSTONE_PORT/v3

LAB_ETC=$LAB_DIR/etc LAB_RUN=$LAB_DIR/run LAB_LOG=$LAB_DIR/log
LAB_ROOT=$LAB_DIR/root LAB_OVN=$LAB_DIR/ovn
# Debian's own, which its packages are for; another may come first in PATH.
LAB_PY=/usr/bin/python3

# A pid file holds "PID STARTTIME". The start time (field 22 of /proc/PID/stat) keeps a pid that was given to another process since from
# being taken for ours.
lab_starttime() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
lab_alive() { # NAME
    local pid st
    [ -f "$LAB_RUN/$1.pid" ] || return 1
    read -r pid st <"$LAB_RUN/$1.pid" || return 1
    [ -n "$pid" ] && [ -n "$st" ] && [ "$(lab_starttime "$pid")" = "$st" ]
}

# lab_enter sets enter and enter_net, which are put in front of a command line, to how a program of the release runs: in its root, whose
# mounts only its own processes see (root.pid), and for enter_net in OVN's network namespace (ovn.pid), too. Both are empty for Zed.
lab_enter() {
    local root net
    enter=() enter_net=()
    [ -d "$LAB_ROOT" ] || return 0
    read -r root _ <"$LAB_RUN/root.pid"
    enter=(nsenter "--mount=/proc/$root/ns/mnt" "--root=/proc/$root/root" "--wd=/proc/$root/root")
    ! lab_alive ovn-net || { read -r net _ <"$LAB_RUN/ovn-net.pid"; enter_net=("${enter[@]}" "--net=/proc/$net/ns/net"); }
}
