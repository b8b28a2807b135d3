# The packages of a release that is not the machine's own, in a root below LAB_DIR: sourced by up.sh. The machine itself gets no package.
# The root's mounts are in a mount namespace, which ends with its processes, so that none can be left behind.
PKGS="python3-keystone python3-nova python3-neutron python3-octavia python3-placement python3-glance python3-barbican python3-ovn-octavia-provider
 python3-pymysql python3-memcache python3-openstacksdk mariadb-server mariadb-client rabbitmq-server memcached
 uwsgi-core uwsgi-plugin-python3 openvswitch-switch ovn-central ovn-host haproxy keepalived ipvsadm iproute2 ethtool procps openssl ca-certificates"
PASTE="nova-common neutron-common glance-common barbican-common"
# The archive goes on, package by package: other versions of these are of another release.
case $LAB_RELEASE in 2025.1) suite=trixie wanted="nova=31 octavia=16";; 2026.2) suite=sid wanted="nova=34 octavia=19";; esac
if [ ! -f "$LAB_DIR/root.done" ]; then
    say "installing about 450 packages of Debian's $suite in $LAB_ROOT"
    # --one-file-system: what is mounted there, if anything is, is not the lab's.
    rm -rf --one-file-system "$LAB_ROOT" "$LAB_DIR/pkg"; mkdir -p "$LAB_DIR/pkg"
    (cd "$LAB_DIR/pkg" && { apt-get -o APT::Sandbox::User=root download -q mmdebstrap ||
        { apt-get update -q && apt-get -o APT::Sandbox::User=root download -q mmdebstrap; }; } &&
        dpkg-deb -x mmdebstrap_*.deb .) >"$LAB_LOG/apt.log" 2>&1 || die "apt-get download mmdebstrap, see $LAB_LOG/apt.log"
    # Most of the time would go into byte compilation of Python that never runs: what runs is compiled when it first does.
    PATH=$LAB_DIR/pkg/usr/bin:$PATH unshare --mount --propagation private mmdebstrap --mode=root --variant=minbase \
        --include="$(echo $PKGS | tr ' ' ,)" --aptopt='Acquire::Languages "none"' \
        --dpkgopt='force-unsafe-io' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --essential-hook='chroot "$1" dpkg-divert --quiet --local --rename --add /usr/bin/py3compile && ln -s true "$1/usr/bin/py3compile"' \
        --customize-hook='mkdir "$1/paste" && chroot "$1" sh -c "cd /paste && apt-get -o APT::Sandbox::User=root download -q '"$PASTE"'"' \
        --customize-hook='sed -n "s/^Date: //p" "$1"/var/lib/apt/lists/*_'$suite'_InRelease >"$1/release-date"' \
        $suite "$LAB_ROOT" "$LAB_MIRROR" >>"$LAB_LOG/apt.log" 2>&1 9>&- || die "mmdebstrap, see $LAB_LOG/apt.log"
    for d in "$LAB_ROOT"/paste/*.deb; do dpkg-deb -x "$d" "$LAB_DIR/pkg"; done
    for each in $wanted; do
        name=${each%=*} version=${each#*=}
        has=$(dpkg-query --admindir="$LAB_ROOT/var/lib/dpkg" -W -f='${source:Upstream-Version}' "python3-$name")
        [ "${has%%.*}" = "$version" ] ||
            die "Debian's $suite has $name $has, and OpenStack $LAB_RELEASE has $name $version: name another archive in LAB_MIRROR"
    done
    touch "$LAB_DIR/root.done"
    say "packages are installed: $suite of $(cat "$LAB_ROOT/release-date")"
fi
mkdir -p "$LAB_ROOT$LAB_DIR" "$LAB_ROOT/run/octavia" "$LAB_ROOT"/{etc,var/lib}/octavia
# The root is a mount point, so that processes in it can have mounts of their own.
start root unshare --mount --propagation private sh -c '
    mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
    mount --bind "$2" "$1$2" && exec chroot "$1" sleep infinity' root "$LAB_ROOT" "$LAB_DIR"
start ovn-net unshare --net sh -c 'ip link set lo up && exec sleep infinity'
read -r root _ <"$LAB_RUN/root.pid"
for _ in $(seq 100); do [ "$(readlink "/proc/$root/root")" != "$LAB_ROOT" ] || break; sleep 0.1; done
[ "$(readlink "/proc/$root/root")" = "$LAB_ROOT" ] || die "the root's mounts, see $LAB_LOG/root.log"
