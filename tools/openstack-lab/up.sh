#!/usr/bin/env bash
# Brings up a real OpenStack on this machine, from Debian's packages: Keystone, Placement, Glance, Nova, Neutron and Octavia, without a
# hypervisor or an amphora; LAB_RELEASE=zed without packets, others with OVN. Parts that are installed, migrated, seeded or running already are left as they are.
# Called by `make openstack-lab`. env.sh has the settings; docs/how-to/test-on-a-real-openstack.md tells what is not as in any
# OpenStack.
set -euo pipefail
. "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/env.sh"
say() { printf 'openstack-lab: %4d s  %s\n' "$SECONDS" "$*" >&2; }
die() { say "FAILED: $*"; exit 1; }

# ---------------------------------------------------------------- what it needs
[ "$(id -u)" = 0 ] || die "it installs packages of Debian's, and so must be run by root"
[ -x /usr/bin/apt-get ] && [ "$(. /etc/os-release && echo "$ID$VERSION_ID")" = debian12 ] || die "it needs Debian 12, whose packages it is made of"
case $LAB_RELEASE in zed|2025.1|2026.2) ;; *) die "RELEASE is zed, 2025.1 or 2026.2, not $LAB_RELEASE";; esac
case $LAB_RELEASE-$LAB_AMPHORA in *-fast|*-nova|20*-agent) ;; *) die "LAB_AMPHORA is fast, nova or, with 2025.1 and later, agent, not $LAB_AMPHORA";; esac
# Where the applications of the APIs are: scripts of Python, or modules.
case $LAB_RELEASE in
zed|2025.1)
    keystone=/usr/bin/keystone-wsgi-public placement=/usr/bin/placement-api octavia=/usr/bin/octavia-wsgi
    barbican=$LAB_DIR/pkg/usr/bin/barbican-wsgi-api;;
*) keystone=keystone.wsgi.api placement=placement.wsgi.api octavia=octavia.wsgi.api barbican=barbican.wsgi.api;;
esac
# A socket's path may have 107 characters.
[ ${#LAB_DIR} -le 80 ] || die "the path $LAB_DIR is too long for sockets in it: set LAB_DIR to a shorter one"
mkdir -p "$LAB_DIR" "$LAB_ETC" "$LAB_RUN" "$LAB_LOG" "$LAB_DIR/py" "$LAB_DIR/tmp"
[ "$(cat "$LAB_DIR/release" 2>/dev/null || echo "$LAB_RELEASE")" = "$LAB_RELEASE" ] ||
    die "$LAB_DIR has release $(cat "$LAB_DIR/release"): make openstack-lab-down WIPE=1, or set LAB_DIR to another folder"
[ -e "$LAB_DIR/release" ] && fresh= || fresh=1
echo "$LAB_RELEASE" >"$LAB_DIR/release"
exec 9>"$LAB_DIR/up.lock"; flock -n 9 || die "another run is at work on $LAB_DIR"
free=$(awk '/MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
lab_alive mariadb || [ "$free" -ge 3500 ] || die "it needs 3.5 GiB of memory, and $free MiB are available"
disk=$(df -Pm "$LAB_DIR" | awk 'NR == 2 {print $4}')
[ "$disk" -ge 2000 ] || die "it needs 2 GB of disk below $LAB_DIR and for packages, and $disk MB are free"
case $LAB_RELEASE in
zed) cost="about 2.5 minutes the first time (1 GB of disk, 2.5 GB of memory), else up to one";;
*) cost="about four minutes the first time (2 GB of disk, 4 GB of memory), else up to one";;
esac
say "bringing up OpenStack $LAB_RELEASE in $LAB_DIR: $cost"

# ---------------------------------------------------------------- processes
# start NAME CMD...: run in a session of its own, so that pid = process group.
start() {
    local name=$1; shift
    if lab_alive "$name"; then return 0; fi
    [ ! -s "$LAB_LOG/$name.log" ] || mv -f "$LAB_LOG/$name.log" "$LAB_LOG/$name.log.1"
    setsid "$@" >>"$LAB_LOG/$name.log" 2>&1 </dev/null 9>&- &
    local pid=$!
    sleep 0.05
    echo "$pid $(lab_starttime "$pid")" >"$LAB_RUN/$name.pid"
}

# ---------------------------------------------------------------- packages
case $LAB_RELEASE in
zed) . "$LAB_HERE/host.sh";;
*) . "$LAB_HERE/root.sh";;
esac
lab_enter
cp -r "$LAB_HERE"/lab_openstack.py "$LAB_HERE"/lab_octavia.py "$LAB_HERE"/lab_nova.py "$LAB_HERE"/lab_amphora.py "$LAB_HERE"/amphora "$LAB_HERE"/lab_wsgi.py "$LAB_HERE"/lab_openstack-1.0.dist-info "$LAB_HERE"/runmain.py "$LAB_HERE"/seed.py "$LAB_DIR/py/"
export PYTHONPATH=$LAB_DIR/py PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PYTHONDONTWRITEBYTECODE= PYTHONUNBUFFERED=1
unset OS_CLOUD ${!OS_*} http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY || true
DIST=$("${enter[@]}" "$LAB_PY" -c 'import nova,os;print(os.path.dirname(os.path.dirname(nova.__file__)))')

# ---------------------------------------------------------------- processes
run() { local prog=$1 target=$2; shift 2; "${enter[@]}" "$LAB_PY" "$LAB_DIR/py/runmain.py" "$target" "$prog" "$@"; }
startpy() { # NAME MODULE:FUNC PROG ARGS...
    local name=$1 target=$2 prog=$3; shift 3
    start "$name" "${enter[@]}" "$LAB_PY" "$LAB_DIR/py/runmain.py" "$target" "$prog" "$@"
}
startwsgi() { # NAME PORT PROCESSES THREADS SCRIPT ENV... [-- PYARGV]
    local name=$1 port=$2 procs=$3 threads=$4 script=$5; shift 5
    local envs=() ; while [ $# -gt 0 ] && [ "$1" != -- ]; do envs+=(--env "$1"); shift; done
    [ "${1:-}" = -- ] && shift
    start "$name" "${enter[@]}" uwsgi_python3 --http-socket "$LAB_HOST:$port" --master --processes "$procs" \
        --threads "$threads" --enable-threads --lazy-apps --die-on-term --need-app --thunder-lock \
        --buffer-size 65535 --listen 100 --add-header "Connection: close" --procname-prefix "$name " \
        --wsgi-file "$LAB_DIR/py/lab_wsgi.py" --env "LAB_WSGI=$script" "${envs[@]}" --pyargv "$*"
}
up() { local name=$1 what=$2 secs=$3; shift 3   # NAME WHAT SECONDS TEST...
    local end=$((SECONDS + secs))
    until "$@" >/dev/null 2>&1; do
        lab_alive "$name" || die "$name died: see $LAB_LOG/$name.log"
        [ $SECONDS -lt $end ] || die "$what not ready in ${secs}s: see $LAB_LOG/$name.log"
        sleep 0.2
    done
    say "$what is up"
}
tcp() { (exec 3<>"/dev/tcp/$LAB_HOST/$1") 2>/dev/null; }
http() { "$LAB_PY" - "$1" <<'PY'
import sys, urllib.request, urllib.error
try: urllib.request.urlopen(sys.argv[1], timeout=5)
except urllib.error.HTTPError as e: sys.exit(0 if e.code < 500 else 1)
PY
}
SOCK=$LAB_DIR/mysql/mysql.sock
sql() { "${enter[@]}" mariadb --no-defaults -uroot -S "$SOCK" "$@"; }
dburl() { echo "mysql+pymysql://lab:$LAB_PASSWORD@localhost/$1?unix_socket=$SOCK&charset=utf8"; }

# A port that another process has would show much later, as a service that died or answers for another lab.
for pair in keystone:$LAB_KEYSTONE_PORT placement:$LAB_PLACEMENT_PORT nova-api:$LAB_NOVA_PORT neutron:$LAB_NEUTRON_PORT \
    glance:$LAB_GLANCE_PORT barbican:$LAB_BARBICAN_PORT octavia-api:$LAB_OCTAVIA_PORT memcached:$LAB_MEMCACHED_PORT epmd:$LAB_EPMD_PORT \
    rabbitmq:$LAB_RABBIT_PORT rabbitmq:$LAB_RABBIT_DIST_PORT; do
    lab_alive "${pair%%:*}" || ! tcp "${pair##*:}" ||
        die "port ${pair##*:} of $LAB_HOST, for ${pair%%:*}, is in use: see env.sh for the setting of another"
done

# ---------------------------------------------------------------- backends
if [ ! -d "$LAB_DIR/mysql/data/mysql" ]; then
    rm -rf "$LAB_DIR/mysql"; mkdir -p "$LAB_DIR/mysql"
    "${enter[@]}" mariadb-install-db --no-defaults --user=root --datadir="$LAB_DIR/mysql/data" \
        --auth-root-authentication-method=normal --skip-test-db >"$LAB_LOG/mariadb-install.log" 2>&1 || die mariadb-install-db
fi
# A lab's data need not survive a power cut: no fsync, no binlog.
start mariadb "${enter[@]}" mariadbd --no-defaults --user=root --datadir="$LAB_DIR/mysql/data" --socket="$SOCK" \
    --pid-file="$LAB_DIR/mysql/mysql.pid" --skip-networking --skip-log-bin --skip-name-resolve \
    --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --sync-binlog=0 --innodb-flush-method=nosync \
    --innodb-buffer-pool-size=128M --innodb-log-file-size=48M --max-connections=1000 \
    --performance-schema=OFF --character-set-server=utf8mb3 --collation-server=utf8mb3_general_ci

start memcached "${enter[@]}" memcached -u root -l "$LAB_HOST" -p "$LAB_MEMCACHED_PORT" -U 0 -m 64

R=$LAB_DIR/rabbit; mkdir -p "$R"
cat >"$R/rabbitmq.conf" <<C
default_user = lab
default_pass = $LAB_PASSWORD
listeners.tcp.default = $LAB_HOST:$LAB_RABBIT_PORT
log.console = false
log.file.level = warning
vm_memory_high_watermark.absolute = 1GB
disk_free_limit.absolute = 50MB
C
echo '[].' >"$R/enabled_plugins"
start epmd "${enter[@]}" epmd -port "$LAB_EPMD_PORT" -address 127.0.0.1
start rabbitmq "${enter[@]}" env HOME="$R" RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE="$R/rabbitmq.conf" \
    RABBITMQ_NODENAME=lab@localhost RABBITMQ_MNESIA_BASE="$R/mnesia" RABBITMQ_LOG_BASE="$LAB_LOG" \
    RABBITMQ_PID_FILE="$R/pid" RABBITMQ_ENABLED_PLUGINS_FILE="$R/enabled_plugins" \
    RABBITMQ_DIST_PORT="$LAB_RABBIT_DIST_PORT" ERL_EPMD_PORT="$LAB_EPMD_PORT" ERL_EPMD_ADDRESS=127.0.0.1 \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-start_epmd false -kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none" \
    /usr/lib/rabbitmq/bin/rabbitmq-server

# ---------------------------------------------------------------- configuration
DEBUG=$([ -n "${LAB_DEBUG:-}" ] && echo true || echo false)
MQ="rabbit://lab:$LAB_PASSWORD@$LAB_HOST:$LAB_RABBIT_PORT/"
common() { cat <<C
[oslo_messaging_notifications]
driver = noop
[oslo_concurrency]
lock_path = $LAB_DIR/tmp
[oslo_messaging_rabbit]
rabbit_qos_prefetch_count = 64
[keystone_authtoken]
$(auth service)
www_authenticate_uri = $LAB_AUTH_URL
memcached_servers = $LAB_HOST:$LAB_MEMCACHED_PORT
service_token_roles_required = true
C
}
auth() { cat <<C
auth_type = password
auth_url = $LAB_AUTH_URL
username = svc
password = $LAB_PASSWORD
project_name = $1
user_domain_id = default
project_domain_id = default
region_name = $LAB_REGION
C
}
# The driver of OVN knows only the default place of the sockets, which is in the root.
driver_sockets() { cat <<C
status_socket_path = $LAB_DIR/octavia/status.sock
stats_socket_path = $LAB_DIR/octavia/stats.sock
get_socket_path = $LAB_DIR/octavia/get.sock
C
}
ovn_databases() { cat <<C
[ovn]
ovn_nb_connection = unix:$LAB_OVN/db.sock
ovn_sb_connection = unix:$LAB_OVN/sb.sock
C
}
mkdir -p "$LAB_ETC"/{keystone,placement,nova,neutron,glance,octavia}

cat >"$LAB_ETC/keystone/keystone.conf" <<C
[DEFAULT]
use_stderr = true
debug = $DEBUG
[database]
connection = $(dburl keystone)
[token]
provider = fernet
expiration = 86400
[identity]
# A login costs a quarter of a second of CPU with the default 12.
password_hash_rounds = 4
[fernet_tokens]
key_repository = $LAB_DIR/keystone/fernet
[fernet_receipts]
key_repository = $LAB_DIR/keystone/fernet
[credential]
key_repository = $LAB_DIR/keystone/credential
[cache]
enabled = true
backend = dogpile.cache.memcached
memcache_servers = $LAB_HOST:$LAB_MEMCACHED_PORT
[oslo_messaging_notifications]
driver = noop
C

cat >"$LAB_ETC/placement/placement.conf" <<C
[DEFAULT]
use_stderr = true
debug = $DEBUG
[placement_database]
connection = $(dburl placement)
[api]
auth_strategy = keystone
$(common)
C

cat >"$LAB_ETC/glance/glance-api.conf" <<C
[DEFAULT]
use_stderr = true
debug = $DEBUG
bind_host = $LAB_HOST
bind_port = $LAB_GLANCE_PORT
workers = 0
[database]
connection = $(dburl glance)
[glance_store]
stores = file
default_store = file
filesystem_store_datadir = $LAB_DIR/glance/images
[paste_deploy]
flavor = keystone
config_file = $LAB_DIR/pkg/usr/share/glance-common/glance-api-paste.ini
$(common)
C

cat >"$LAB_ETC/nova/nova.conf" <<C
[DEFAULT]
use_stderr = true
debug = $DEBUG
transport_url = $MQ
my_ip = $LAB_HOST
state_path = $LAB_DIR/nova
enabled_apis = osapi_compute
osapi_compute_listen = $LAB_HOST
osapi_compute_listen_port = $LAB_NOVA_PORT
osapi_compute_workers = 1
compute_driver = fake.FakeDriver
# The fake driver emits no VIF events; do not wait for any.
vif_plugging_timeout = 0
vif_plugging_is_fatal = false
instance_usage_audit = false
sync_power_state_interval = -1
report_interval = 10
# Else a service's first periodic tasks, the discovery of hosts among them, wait
# for up to a minute, and a server made before that is an ERROR.
periodic_fuzzy_delay = 0
service_down_time = 60
[api]
auth_strategy = keystone
[wsgi]
api_paste_config = $LAB_DIR/pkg/usr/share/nova-common/api-paste.ini
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 2
[filter_scheduler]
track_instance_changes = false
[quota]
instances = -1
cores = -1
ram = -1
server_groups = -1
key_pairs = -1
[glance]
region_name = $LAB_REGION
[placement]
$(auth service)
[neutron]
$(auth service)
[cinder]
os_region_name = $LAB_REGION
[service_user]
send_service_user_token = true
$(auth service)
$(common)
C

# Not for nova-compute, which must not touch the databases.
cat >"$LAB_ETC/nova/db.conf" <<C
[database]
connection = $(dburl nova_cell1)
[api_database]
connection = $(dburl nova_api)
C

cat >"$LAB_ETC/neutron/neutron.conf" <<C
[DEFAULT]
use_stderr = true
debug = $DEBUG
transport_url = $MQ
bind_host = $LAB_HOST
bind_port = $LAB_NEUTRON_PORT
state_path = $LAB_DIR/neutron
api_paste_config = $LAB_DIR/pkg/usr/share/neutron-common/api-paste.ini
core_plugin = ml2
service_plugins = $([ $LAB_RELEASE = zed ] && echo router || echo ovn-router),port_forwarding,qos,trunk
auth_strategy = keystone
api_workers = 2
rpc_workers = 1
rpc_state_report_workers = 0
# There are no DHCP or L3 agents to schedule anything on.
network_auto_schedule = false
router_auto_schedule = false
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
max_routes = 1000
# A host without a controller of OVN's (see ovn.sh) stays alive.
agent_down_time = 2147483
[database]
connection = $(dburl neutron)
[nova]
$(auth service)
[placement]
$(auth service)
[quotas]
default_quota = -1
quota_network = -1
quota_subnet = -1
quota_port = -1
quota_router = -1
quota_floatingip = -1
quota_security_group = -1
quota_security_group_rule = -1
$(common)
C
if [ $LAB_RELEASE = zed ]; then
cat >"$LAB_ETC/neutron/ml2_conf.ini" <<C
[ml2]
type_drivers = local,flat,vlan,vxlan
tenant_network_types = vxlan
# lab binds every port; openvswitch, never reached, lends trunk and qos a driver.
mechanism_drivers = lab,openvswitch
extension_drivers = port_security,qos
[ml2_type_flat]
flat_networks = *
[ml2_type_vlan]
network_vlan_ranges = physnet1:1000:2999
[ml2_type_vxlan]
vni_ranges = 1:100000
C
else
cat >"$LAB_ETC/neutron/ml2_conf.ini" <<C
[ml2]
type_drivers = local,flat,vlan,geneve
tenant_network_types = geneve
mechanism_drivers = ovn
extension_drivers = port_security,qos
[ml2_type_flat]
flat_networks = *
[ml2_type_vlan]
network_vlan_ranges = physnet1:1000:2999
[ml2_type_geneve]
vni_ranges = 1:65536
max_header_size = 38
$(ovn_databases)
ovn_l3_scheduler = leastloaded
ovn_metadata_enabled = false
C
fi

# The authority of the amphorae, and the certificate with which the worker logs in to them.
if [ ! -f "$LAB_DIR/octavia/client.pem" ]; then
    mkdir -p "$LAB_DIR/octavia"
    (cd "$LAB_DIR/octavia" && openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=lab-octavia-ca \
        -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.pem &&
        openssl req -newkey rsa:2048 -nodes -subj /CN=lab-octavia-worker -keyout client.key -out client.csr &&
        openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -out client.crt &&
        cat client.crt client.key >client.pem) 2>/dev/null || die "the certificates of Octavia"
fi
cat >"$LAB_ETC/octavia/octavia.conf" <<C
[DEFAULT]
use_stderr = true
debug = $DEBUG
transport_url = $MQ
[api_settings]
bind_host = $LAB_HOST
bind_port = $LAB_OCTAVIA_PORT
auth_strategy = keystone
api_base_uri = http://$LAB_HOST:$LAB_OCTAVIA_PORT
enabled_provider_drivers = amphora:The Octavia Amphora driver.,noop_driver:The no-op driver.$([ $LAB_RELEASE = zed ] || echo ,ovn:OVN)
default_provider_driver = amphora
allow_tls_terminated_listeners = true
[database]
connection = $(dburl octavia)
[oslo_messaging]
topic = octavia_prov
rpc_thread_pool_size = 4
[service_auth]
$(auth service)
[nova]
region_name = $LAB_REGION
[neutron]
region_name = $LAB_REGION
[glance]
region_name = $LAB_REGION
[networking]
retry_interval = 1
[certificates]
cert_manager = $([ $LAB_RELEASE = zed ] && echo local_cert_manager || echo barbican_cert_manager)
region_name = $LAB_REGION
cert_generator = local_cert_generator
ca_certificate = $LAB_DIR/octavia/ca.pem
ca_private_key = $LAB_DIR/octavia/ca.key
[health_manager]
bind_ip = $LAB_HOST
bind_port = $LAB_HEALTH_PORT
controller_ip_port_list = $LAB_HOST:$LAB_HEALTH_PORT
heartbeat_key = lab
heartbeat_interval = 3
health_update_threads = 1
stats_update_threads = 1
[haproxy_amphora]
client_cert = $LAB_DIR/octavia/client.pem
server_ca = $LAB_DIR/octavia/ca.pem
connection_retry_interval = 1
active_connection_retry_interval = 1
[controller_worker]
workers = 1
amphora_driver = $([ "$LAB_AMPHORA" = agent ] && echo amphora_haproxy_rest_driver || echo amphora_noop_driver)
compute_driver = $(case $LAB_AMPHORA in fast) echo lab_compute;; nova) echo compute_nova_driver;; agent) echo lab_agent;; esac)
network_driver = allowed_address_pairs_driver
volume_driver = volume_noop_driver
image_driver = image_glance_driver
amp_active_wait_sec = 1
amp_active_retries = 60
amp_flavor_id = amphora
amp_image_tag = amphora
loadbalancer_topology = SINGLE
client_ca = $LAB_DIR/octavia/ca.pem
[driver_agent]
$([ $LAB_RELEASE = zed ] && driver_sockets || { echo enabled_provider_agents = ovn; ovn_databases; })
[task_flow]
engine = parallel
$(common)
C

# Barbican's programs know only the default place of their configuration, which is in the root.
if [ $LAB_RELEASE != zed ]; then
mkdir -p "$LAB_ROOT/etc/barbican"
cp "$LAB_DIR/pkg/usr/share/barbican-common/barbican-api-paste.ini" "$LAB_ROOT/etc/barbican"
cat >"$LAB_ROOT/etc/barbican/barbican.conf" <<C
[DEFAULT]
use_stderr = true
debug = $DEBUG
host_href = http://$LAB_HOST:$LAB_BARBICAN_PORT
[database]
connection = $(dburl barbican)
[simple_crypto_plugin]
kek = $(printf %032d 0 | base64)
$(common)
C
fi

NOVAC="--config-file $LAB_ETC/nova/nova.conf"
NOVA="$NOVAC --config-file $LAB_ETC/nova/db.conf"
NEUTRON="--config-file $LAB_ETC/neutron/neutron.conf --config-file $LAB_ETC/neutron/ml2_conf.ini"
OCTAVIA="--config-file $LAB_ETC/octavia/octavia.conf"

# ---------------------------------------------------------------- schemas
DBS="keystone placement glance nova_api nova_cell0 nova_cell1 neutron octavia barbican"
up mariadb MariaDB 60 sql -e 'select 1'
for d in $DBS; do echo "CREATE DATABASE IF NOT EXISTS $d CHARACTER SET utf8mb3;"; done | sql
sql -e "CREATE USER IF NOT EXISTS lab@localhost IDENTIFIED BY '$LAB_PASSWORD'; GRANT ALL ON *.* TO lab@localhost"

STAMP=$LAB_DIR/schemas.done
if [ ! -f "$STAMP" ]; then
    say "migrating the schemas"
    pids=()
    ("${enter[@]}" env -C "$DIST/neutron/db/migration" "$LAB_PY" "$LAB_DIR/py/runmain.py" neutron.db.migration.cli:main neutron-db-manage $NEUTRON upgrade heads) >"$LAB_LOG/sync-neutron.log" 2>&1 & pids+=($!)
    ( run nova-manage nova.cmd.manage:main $NOVA api_db sync &&
      run nova-manage nova.cmd.manage:main $NOVA cell_v2 map_cell0 --database_connection "$(dburl nova_cell0)" &&
      run nova-manage nova.cmd.manage:main $NOVA db sync ) >"$LAB_LOG/sync-nova.log" 2>&1 & pids+=($!)
    ( "${enter[@]}" keystone-manage --config-file "$LAB_ETC/keystone/keystone.conf" db_sync &&
      "${enter[@]}" octavia-db-manage $OCTAVIA upgrade head &&
      run glance-manage glance.cmd.manage:main --config-file "$LAB_ETC/glance/glance-api.conf" db_sync &&
      OS_PLACEMENT_CONFIG_DIR="$LAB_ETC/placement" "${enter[@]}" placement-manage --config-file "$LAB_ETC/placement/placement.conf" db sync ) >"$LAB_LOG/sync-rest.log" 2>&1 & pids+=($!)
    [ $LAB_RELEASE = zed ] || { run barbican-db-manage barbican.cmd.db_manage:main -d "$(dburl barbican)" upgrade >"$LAB_LOG/sync-barbican.log" 2>&1 & pids+=($!); }
    for p in "${pids[@]}"; do wait "$p" || die "a migration failed: see $LAB_LOG/sync-*.log"; done
    sql -e 'DELETE FROM nova_api.cell_mappings'   # they hold this lab's own URLs; put back below
    touch "$STAMP"
    say "schemas are migrated"
fi
# Nova's map of its cells: cell0 for servers that could not be placed, cell1
# for all others. (nova-manage cell_v2 map_cell0 / create_cell do just this.)
sql nova_api <<C
INSERT INTO cell_mappings (created_at, uuid, name, transport_url, database_connection, disabled)
 SELECT NOW(), '00000000-0000-0000-0000-000000000000', 'cell0', 'none:///', '$(dburl nova_cell0)', 0
 WHERE NOT EXISTS (SELECT 1 FROM cell_mappings WHERE name='cell0');
INSERT INTO cell_mappings (created_at, uuid, name, transport_url, database_connection, disabled)
 SELECT NOW(), UUID(), 'cell1', '$MQ', '$(dburl nova_cell1)', 0
 WHERE NOT EXISTS (SELECT 1 FROM cell_mappings WHERE name='cell1');
UPDATE cell_mappings SET database_connection='$(dburl nova_cell0)' WHERE name='cell0';
UPDATE cell_mappings SET transport_url='$MQ', database_connection='$(dburl nova_cell1)' WHERE name='cell1';
C

# ---------------------------------------------------------------- keystone
if [ ! -f "$LAB_DIR/keystone/bootstrapped" ]; then
    mkdir -p "$LAB_DIR/keystone"/{fernet,credential}; chmod 700 "$LAB_DIR/keystone"/{fernet,credential}
    # What keystone-manage fernet_setup and credential_setup do, less six seconds.
    for r in fernet credential; do for i in 0 1; do
        openssl rand -base64 32 | tr '+/' '-_' | tr -d '\n' >"$LAB_DIR/keystone/$r/$i"
        chmod 600 "$LAB_DIR/keystone/$r/$i"
    done; done
    { "${enter[@]}" keystone-manage --config-file "$LAB_ETC/keystone/keystone.conf" bootstrap --bootstrap-password "$LAB_PASSWORD" --bootstrap-region-id "$LAB_REGION" \
        --bootstrap-admin-url "$LAB_AUTH_URL" --bootstrap-internal-url "$LAB_AUTH_URL" --bootstrap-public-url "$LAB_AUTH_URL"
    } >"$LAB_LOG/keystone-bootstrap.log" 2>&1 || die "keystone bootstrap: see $LAB_LOG/keystone-bootstrap.log"
    touch "$LAB_DIR/keystone/bootstrapped"
fi
# Of one thread each: with more, a token was seen with a role that only another user had.
startwsgi keystone "$LAB_KEYSTONE_PORT" 4 1 $keystone \
    "OS_KEYSTONE_CONFIG_FILES=$LAB_ETC/keystone/keystone.conf"
up keystone keystone 90 http "$LAB_AUTH_URL"
# Before the others: nova-conductor and nova-scheduler give up permanently when
# their user cannot authenticate at start.
"${enter[@]}" "$LAB_PY" "$LAB_DIR/py/seed.py" identity || die "seeding keystone"
say "keystone seeded"
up rabbitmq RabbitMQ 90 tcp "$LAB_RABBIT_PORT"
[ $LAB_RELEASE = zed ] || . "$LAB_HERE/ovn.sh"
case $LAB_RELEASE in
zed|2025.1)
    startpy neutron neutron.cmd.eventlet.server:main neutron-server $NEUTRON
    startpy nova-api nova.cmd.api_os_compute:main nova-api-os-compute $NOVA
    mkdir -p "$LAB_DIR/glance/images"
    startpy glance glance.cmd.api:main glance-api --config-file "$LAB_ETC/glance/glance-api.conf";;
*)
    startwsgi neutron "$LAB_NEUTRON_PORT" 2 1 neutron.wsgi.api "OS_NEUTRON_CONFIG_DIR=$LAB_ETC/neutron" "OS_NEUTRON_CONFIG_FILES=neutron.conf;ml2_conf.ini"
    startpy neutron-rpc neutron.cmd.server:main_rpc neutron-rpc-server $NEUTRON
    startpy neutron-periodic neutron.cmd.server:main_periodic neutron-periodic-workers $NEUTRON
    startpy neutron-ovn neutron.cmd.server:main_ovn_maintenance neutron-ovn-maintenance-worker $NEUTRON
    startwsgi nova-api "$LAB_NOVA_PORT" 2 4 nova.wsgi.osapi_compute "OS_NOVA_CONFIG_DIR=$LAB_ETC/nova" "OS_NOVA_CONFIG_FILES=nova.conf;db.conf"
    mkdir -p "$LAB_DIR/glance/images"
    startwsgi glance "$LAB_GLANCE_PORT" 1 4 glance.wsgi.api "OS_GLANCE_CONFIG_DIR=$LAB_ETC/glance";;
esac
startpy nova-conductor nova.cmd.conductor:main nova-conductor $NOVA
startpy nova-scheduler nova.cmd.scheduler:main nova-scheduler $NOVA
startwsgi placement "$LAB_PLACEMENT_PORT" 1 8 $placement "OS_PLACEMENT_CONFIG_DIR=$LAB_ETC/placement"
startwsgi octavia-api "$LAB_OCTAVIA_PORT" 2 4 $octavia -- "$OCTAVIA"
[ $LAB_RELEASE = zed ] || startwsgi barbican "$LAB_BARBICAN_PORT" 1 4 $barbican
[ $LAB_RELEASE = zed ] || startpy octavia-driver-agent octavia.cmd.driver_agent:main octavia-driver-agent $OCTAVIA
for pair in $LAB_COMPUTES; do
    h=${pair%%:*}; mkdir -p "$LAB_DIR/nova/$h/instances"
    printf '[DEFAULT]\nhost = %s\nstate_path = %s\n' "$h" "$LAB_DIR/nova/$h" >"$LAB_ETC/nova/$h.conf"
    # "up" must mean this process, not the heartbeat of the previous one.
    lab_alive "nova-compute-$h" || sql nova_cell1 -e "update services set last_seen_up='2000-01-01' where host='$h'"
    startpy "nova-compute-$h" $([ $LAB_RELEASE = zed ] && echo nova.cmd.compute:main || echo lab_nova:main) nova-compute $NOVAC --config-file "$LAB_ETC/nova/$h.conf"
done

# ---------------------------------------------------------------- the others
up placement placement 90 http "http://$LAB_HOST:$LAB_PLACEMENT_PORT/"
up neutron neutron 120 http "http://$LAB_HOST:$LAB_NEUTRON_PORT/"
up glance glance 90 http "http://$LAB_HOST:$LAB_GLANCE_PORT/"
up nova-api nova 90 http "http://$LAB_HOST:$LAB_NOVA_PORT/"
up octavia-api octavia 90 http "http://$LAB_HOST:$LAB_OCTAVIA_PORT/"
[ $LAB_RELEASE = zed ] || up barbican barbican 90 http "http://$LAB_HOST:$LAB_BARBICAN_PORT/"
"${enter[@]}" "$LAB_PY" "$LAB_DIR/py/seed.py" resources || die "seeding the cloud"
say "cloud seeded"
id() { "$LAB_PY" -c 'import json,sys;print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$LAB_DIR/$1.json" "$2"; }
cat >"$LAB_ETC/octavia/worker.conf" <<C
[controller_worker]
amp_boot_network_list = $(id ids mgmt_network)
amp_secgroup_list = $(id ids mgmt_sg)
C
startpy octavia-worker lab_octavia:main octavia-worker $OCTAVIA --config-file "$LAB_ETC/octavia/worker.conf"
[ "$LAB_AMPHORA" != agent ] || startpy octavia-health-manager octavia.cmd.health_manager:main octavia-health-manager $OCTAVIA --config-file "$LAB_ETC/octavia/worker.conf"

# ---------------------------------------------------------------- for its users
cat >"$LAB_DIR/clouds.yaml" <<C
clouds:
  lab-admin:
    auth: {auth_url: "$LAB_AUTH_URL", username: admin, password: "$LAB_PASSWORD", project_name: admin, user_domain_id: default, project_domain_id: default}
    region_name: $LAB_REGION
    identity_api_version: 3
  lab-demo:
    auth: {auth_url: "$LAB_AUTH_URL", username: demo, password: "$LAB_PASSWORD", project_name: demo, user_domain_id: default, project_domain_id: default}
    region_name: $LAB_REGION
    identity_api_version: 3
  lab-appcred:
    auth_type: v3applicationcredential
    auth: {auth_url: "$LAB_AUTH_URL", application_credential_id: "$(id appcred id)", application_credential_secret: "$(id appcred secret)"}
    region_name: $LAB_REGION
    identity_api_version: 3
C
cat >"$LAB_DIR/cloud.conf" <<C
[Global]
auth-url = $LAB_AUTH_URL
region = $LAB_REGION
application-credential-id = $(id appcred id)
application-credential-secret = $(id appcred secret)
[LoadBalancer]
floating-network-id = $(id ids public_network)
C
"${enter[@]}" "$LAB_PY" "$LAB_DIR/py/seed.py" probe || die "Nova places no server: see $LAB_LOG/nova-scheduler.log"
say "Nova places servers"
octavia_ready() { grep -q 'Starting V2 consumer' "$LAB_LOG/octavia-worker.log"; }
up octavia-worker octavia-worker 60 octavia_ready
# For the page of evidence, which has no time of a lab of which a part was there before.
[ -z "$fresh" ] || echo "$SECONDS" >"$LAB_DIR/up-seconds"
say "OpenStack is up: clouds.yaml, cloud.conf and lab.json are in $LAB_DIR; make openstack-lab-down takes it down"
