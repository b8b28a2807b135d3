# The packages of the machine's own release, on the machine itself: sourced by up.sh.
# python3-* carry all the code. Of the services' own packages only the paste files are wanted, so these are unpacked into LAB_DIR and not
# installed: no debconf, no dbconfig, no users of the system, no init scripts, nothing in /etc.
PKGS="python3-keystone python3-nova python3-neutron python3-octavia
 python3-placement python3-glance python3-pymysql python3-memcache
 python3-openstacksdk mariadb-server mariadb-client rabbitmq-server memcached
 uwsgi-core uwsgi-plugin-python3 openssl"
PASTE="nova-common neutron-common glance-common"
{ dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' $PKGS 2>/dev/null || true; } | awk '$1 == "ii" {print $2}' | sort >"$LAB_DIR/tmp/have"
missing=$(printf '%s\n' $PKGS | sort | comm -23 - "$LAB_DIR/tmp/have")
if [ -n "$missing" ]; then
    say "installing about 350 packages, for" $missing
    export DEBIAN_FRONTEND=noninteractive
    # No package may start a daemon of its own.
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d
    fi
    # An installation that was interrupted keeps each later one from beginning.
    dpkg --configure -a >"$LAB_LOG/apt.log" 2>&1 || die "dpkg --configure -a, see $LAB_LOG/apt.log"
    apt-get update -q >>"$LAB_LOG/apt.log" 2>&1 || die "apt-get update, see $LAB_LOG/apt.log"
    apt-get install -y -q --no-install-recommends -o Dpkg::Options::=--force-confdef \
        -o Dpkg::Options::=--force-confold $missing >>"$LAB_LOG/apt.log" 2>&1 9>&- || die "apt-get install, see $LAB_LOG/apt.log"
    [ -z "$(trap -p EXIT)" ] || { rm -f /usr/sbin/policy-rc.d; trap - EXIT; }
    say "packages are installed"
fi
if [ ! -f "$LAB_DIR/pkg/.done" ]; then
    mkdir -p "$LAB_DIR/pkg/debs"
    # Without this apt complains that its own user cannot write there.
    (cd "$LAB_DIR/pkg/debs" && { apt-get -o APT::Sandbox::User=root download -q $PASTE ||
        { apt-get update -q && apt-get -o APT::Sandbox::User=root download -q $PASTE; }; }) >>"$LAB_LOG/apt.log" 2>&1 ||
        die "apt-get download $PASTE, see $LAB_LOG/apt.log"
    for d in "$LAB_DIR"/pkg/debs/*.deb; do dpkg-deb -x "$d" "$LAB_DIR/pkg"; done
    touch "$LAB_DIR/pkg/.done"
fi
