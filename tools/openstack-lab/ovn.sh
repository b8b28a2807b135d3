# OVN with the datapath of Open vSwitch's user space, which needs no module of the kernel: sourced by up.sh. The switch is in a network
# namespace of its own. The northbound and the southbound database have a server each: Octavia's driver agent takes a lock of one name in
# both, and one server gives it once, after which no member gets its monitor's status. The first compute host is the chassis; the others
# are names of chassis, so that Neutron binds ports there, where no packet goes.
mkdir -p "$LAB_OVN"
db() { # FILE SCHEMA
    [ -f "$LAB_OVN/$1" ] || "${enter[@]}" ovsdb-tool create "$LAB_OVN/$1" "$2"
}
db conf.db /usr/share/openvswitch/vswitch.ovsschema
db nb.db /usr/share/ovn/ovn-nb.ovsschema
db sb.db /usr/share/ovn/ovn-sb.ovsschema
OVSDB=unix:$LAB_OVN/db.sock OVNSB=unix:$LAB_OVN/sb.sock
export OVS_RUNDIR=$LAB_OVN OVN_RUNDIR=$LAB_OVN
start ovsdb "${enter[@]}" ovsdb-server "$LAB_OVN"/{conf,nb}.db "--remote=p$OVSDB" --unixctl="$LAB_OVN/ovsdb.ctl" -vconsole:info -vsyslog:off -vfile:off
start ovsdb-sb "${enter[@]}" ovsdb-server "$LAB_OVN/sb.db" "--remote=p$OVNSB" --unixctl="$LAB_OVN/ovsdb-sb.ctl" -vconsole:info -vsyslog:off -vfile:off
up ovsdb "OVN's northbound database" 30 test -S "$LAB_OVN/db.sock"
up ovsdb-sb "OVN's southbound database" 30 test -S "$LAB_OVN/sb.sock"
vsctl() { "${enter[@]}" ovs-vsctl --db="$OVSDB" --timeout=30 "$@"; }
nbctl() { "${enter[@]}" ovn-nbctl --db="$OVSDB" --timeout=30 "$@"; }
sbctl() { "${enter[@]}" ovn-sbctl --db="$OVNSB" --timeout=30 "$@"; }
vsctl --no-wait init
nbctl init; sbctl init
chassis=${LAB_COMPUTES%%:*}
vsctl --no-wait set open . external_ids:system-id="$chassis" external_ids:hostname="$chassis" external_ids:ovn-remote="$OVNSB" \
    external_ids:ovn-encap-type=geneve external_ids:ovn-encap-ip=127.0.0.1 external_ids:ovn-bridge-datapath-type=netdev \
    external_ids:ovn-bridge-mappings=public:br-ex external_ids:ovn-cms-options=enable-chassis-as-gw
start ovs-vswitchd "${enter_net[@]}" ovs-vswitchd "$OVSDB" --disable-system --unixctl="$LAB_OVN/vswitchd.ctl" -vconsole:info -vsyslog:off -vfile:off
vsctl --may-exist add-br br-ex -- set bridge br-ex datapath_type=netdev
start ovn-northd "${enter[@]}" ovn-northd --ovnnb-db="$OVSDB" --ovnsb-db="$OVNSB" --unixctl="$LAB_OVN/northd.ctl" -vconsole:info -vsyslog:off -vfile:off
start ovn-controller "${enter_net[@]}" ovn-controller "$OVSDB" --unixctl="$LAB_OVN/controller.ctl" -vconsole:info -vsyslog:off -vfile:off
has_chassis() { [ -n "$(sbctl --bare --columns=name find chassis name="$1")" ]; }
up ovn-controller "OVN's controller" 60 has_chassis "$chassis"
n=1
for pair in $LAB_COMPUTES; do
    h=${pair%%:*}; n=$((n + 1))
    has_chassis "$h" || sbctl chassis-add "$h" geneve "127.0.0.$n" -- set chassis "$h" hostname="$h" >/dev/null
done
