"""Idempotent contents of the lab cloud. seed.py PHASE, settings from the
environment. All calls go through the public APIs, as any operator's would."""
import email.utils
import json
import os
import subprocess
import sys
import time

import openstack
from openstack import exceptions as exc
from keystoneauth1 import exceptions as kexc

E = os.environ
REGION = E['LAB_REGION']
HOST = E['LAB_HOST']
PASSWORD = E['LAB_PASSWORD']


def admin(project='admin'):
    return openstack.connect(
        auth=dict(auth_url=E['LAB_AUTH_URL'], username='admin',
                  password=PASSWORD, project_name=project,
                  user_domain_id='default', project_domain_id='default'),
        region_name=REGION, identity_api_version='3', compute_api_version='2.1')


def wait(what, fn, timeout=120, pause=0.5):
    end = time.time() + timeout
    while True:
        try:
            r = fn()
            if r:
                return r
            err = 'not yet'
        except (exc.SDKException, kexc.ClientException) as e:
            err = e
        if time.time() > end:
            raise SystemExit('seed: gave up on %s: %s' % (what, err))
        time.sleep(pause)


def one(items, **want):
    for i in items:
        if all(i.get(k) == v for k, v in want.items()):
            return i
    return None


class Rest:
    """Thin idempotent helpers over a session: list first, create if absent."""

    def __init__(self, conn, service, prefix='', mv=None):
        self.a = conn.session
        self.kw = dict(endpoint_filter=dict(service_type=service,
                                            region_name=REGION,
                                            interface='public'))
        if mv:
            self.kw['headers'] = {'OpenStack-API-Version': 'compute ' + mv}
        self.p = prefix

    def call(self, method, path, **kw):
        r = self.a.request(self.p + path, method,
                           **dict(self.kw, raise_exc=False, **kw))
        if r.status_code >= 300:
            raise exc.SDKException('%s %s: %s %s' % (
                method, path, r.status_code, r.text[:400]))
        return r.json() if r.text else {}

    def ensure(self, path, coll, single, body, **match):
        got = one(self.call('GET', path).get(coll, []), **match)
        return got or self.call('POST', path.split('?')[0].replace('/detail', ''),
                                json={single: body})[single]


def identity():
    k = Rest(admin(), 'identity')
    k.p = E['LAB_AUTH_URL']
    k.kw = {}
    # Barbican's role of users who create secrets.
    secrets = () if E['LAB_RELEASE'] == 'zed' else ('creator',)
    roles = {n: k.ensure('/roles', 'roles', 'role', {'name': n}, name=n)['id']
             for n in ('admin', 'member', 'reader', 'service', 'load-balancer_member') + secrets}

    def project(n):
        return k.ensure('/projects', 'projects', 'project',
                        {'name': n, 'domain_id': 'default'}, name=n)['id']

    def user(n, pw):
        return k.ensure('/users?name=' + n, 'users', 'user',
                        {'name': n, 'domain_id': 'default', 'password': pw},
                        name=n)['id']

    def grant(p, u, r):
        k.call('PUT', '/projects/%s/users/%s/roles/%s' % (p, u, roles[r]))

    svc = project('service')
    demo = project('demo')
    su = user('svc', PASSWORD)
    grant(svc, su, 'admin')
    grant(svc, su, 'service')   # what makes its service tokens count
    me = user('admin', PASSWORD)
    grant(svc, me, 'admin')
    grant(demo, me, 'admin')
    u = user('demo', PASSWORD)
    for r in ('member', 'reader', 'load-balancer_member') + secrets:
        grant(demo, u, r)

    eps = k.call('GET', '/endpoints')['endpoints']
    barbican = [] if E['LAB_RELEASE'] == 'zed' else [
        ('key-manager', 'barbican', 'http://%s:%s' % (HOST, E['LAB_BARBICAN_PORT']))]
    for typ, name, url in barbican + [
            ('compute', 'nova', 'http://%s:%s/v2.1' % (HOST, E['LAB_NOVA_PORT'])),
            ('placement', 'placement', 'http://%s:%s' % (HOST, E['LAB_PLACEMENT_PORT'])),
            ('image', 'glance', 'http://%s:%s' % (HOST, E['LAB_GLANCE_PORT'])),
            ('network', 'neutron', 'http://%s:%s' % (HOST, E['LAB_NEUTRON_PORT'])),
            ('load-balancer', 'octavia', 'http://%s:%s' % (HOST, E['LAB_OCTAVIA_PORT']))]:
        s = k.ensure('/services', 'services', 'service',
                     {'name': name, 'type': typ}, name=name)['id']
        for iface in ('public', 'internal', 'admin'):
            if not one(eps, service_id=s, interface=iface):
                k.call('POST', '/endpoints', json={'endpoint': {
                    'service_id': s, 'interface': iface, 'url': url,
                    'region_id': REGION}})

    # An application credential must be made by the user itself.
    path = os.path.join(E['LAB_DIR'], 'appcred.json')
    if not os.path.exists(path):
        d = openstack.connect(
            auth=dict(auth_url=E['LAB_AUTH_URL'], username='demo',
                      password=PASSWORD, project_name='demo',
                      user_domain_id='default', project_domain_id='default'),
            region_name=REGION, identity_api_version='3')
        kd = Rest(d, 'identity')
        kd.p, kd.kw = E['LAB_AUTH_URL'], {}
        base = '/users/%s/application_credentials' % u
        old = one(kd.call('GET', base)['application_credentials'], name='ccm')
        if old:
            kd.call('DELETE', base + '/' + old['id'])
        c = kd.call('POST', base, json={'application_credential': {
            'name': 'ccm', 'unrestricted': True}})['application_credential']
        with open(path, 'w') as f:
            json.dump({'id': c['id'], 'secret': c['secret'],
                       'project_id': demo, 'user_id': u}, f)
    admin_project = project('admin')
    with open(os.path.join(E['LAB_DIR'], 'ids.json'), 'w') as f:
        json.dump({'service_project': svc, 'demo_project': demo,
                   'admin_project': admin_project, 'admin_user': me}, f)


def versions():
    """The versions of the release's programs, by Debian's packages."""
    programs = {'python3-keystone': 'Keystone', 'python3-nova': 'Nova',
                'python3-neutron': 'Neutron', 'python3-octavia': 'Octavia'}
    if E['LAB_RELEASE'] != 'zed':
        programs.update({'python3-ovn-octavia-provider': 'ovn-octavia-provider',
                         'ovn-common': 'OVN', 'openvswitch-switch': 'Open vSwitch',
                         'python3-barbican': 'Barbican', 'haproxy': 'HAProxy'})
    rows = subprocess.run(
        ['dpkg-query', '-W', '-f', '${Package} ${source:Upstream-Version}\n', *programs],
        check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return {programs[package]: version for package, version in map(str.split, rows)}


def archive():
    """The day of Debian's archive from which a release in a root of its own is."""
    if E['LAB_RELEASE'] == 'zed':
        return ''
    with open('/release-date') as f:
        return email.utils.parsedate_to_datetime(f.readline()).date().isoformat()


def resources():
    ids = json.load(open(os.path.join(E['LAB_DIR'], 'ids.json')))
    svc, demo = ids['service_project'], ids['demo_project']
    conn = admin()

    # Glance: one tiny public image, and the one Octavia boots its amphorae from.
    g = Rest(conn, 'image', '/v2')
    for name, tags, vis in (('tiny', [], 'public'), ('amphora', ['amphora'], 'public')):
        img = one(g.call('GET', '/images?name=' + name)['images'], name=name)
        if img and img['status'] != 'active':
            g.call('DELETE', '/images/' + img['id'])
            img = None
        if not img:
            img = g.call('POST', '/images', json={
                'name': name, 'disk_format': 'raw', 'container_format': 'bare',
                'visibility': vis, 'tags': tags})
            g.call('PUT', '/images/%s/file' % img['id'], data=b'\0' * 1024,
                   headers={'Content-Type': 'application/octet-stream'})
        ids['image_' + name] = img['id']

    # Neutron: the outside network, and Octavia's management network.
    n = Rest(conn, 'network', '/v2.0')
    pub = n.ensure('/networks?name=public', 'networks', 'network', {
        'name': 'public', 'router:external': True, 'shared': False,
        'provider:network_type': 'flat', 'provider:physical_network': 'public'},
        name='public')
    n.ensure('/subnets?network_id=' + pub['id'], 'subnets', 'subnet', {
        'name': 'public-subnet', 'network_id': pub['id'], 'ip_version': 4,
        'cidr': E['LAB_PUBLIC_CIDR'], 'enable_dhcp': False},
        name='public-subnet')
    mg = n.ensure('/networks?name=lb-mgmt-net', 'networks', 'network',
                  {'name': 'lb-mgmt-net', 'project_id': svc}, name='lb-mgmt-net')
    n.ensure('/subnets?network_id=' + mg['id'], 'subnets', 'subnet', {
        'name': 'lb-mgmt-subnet', 'network_id': mg['id'], 'ip_version': 4,
        'project_id': svc, 'cidr': '10.255.0.0/16', 'gateway_ip': None,
        'enable_dhcp': False}, name='lb-mgmt-subnet')
    sg = n.ensure('/security-groups?name=lb-mgmt-sec-grp&project_id=' + svc,
                  'security_groups', 'security_group',
                  {'name': 'lb-mgmt-sec-grp', 'project_id': svc},
                  name='lb-mgmt-sec-grp')
    ids.update(public_network=pub['id'], mgmt_network=mg['id'], mgmt_sg=sg['id'])

    # Nova: flavors, and one availability zone per compute host.
    c = Rest(conn, 'compute', '', '2.53')
    for fid, name, vcpu, ram, disk in (('1', 'm1.tiny', 1, 512, 1),
                                       ('2', 'm1.small', 1, 2048, 20),
                                       ('3', 'm1.medium', 2, 4096, 40),
                                       ('amphora', 'm1.amphora', 1, 128, 1)):
        c.ensure('/flavors/detail?is_public=None', 'flavors', 'flavor', {
            'id': fid, 'name': name, 'vcpus': vcpu, 'ram': ram, 'disk': disk,
            'os-flavor-access:is_public': name != 'm1.amphora'}, id=fid)
    hosts = [h.split(':') for h in E['LAB_COMPUTES'].split()]

    def up():
        got = {s['host'] for s in c.call(
            'GET', '/os-services?binary=nova-compute')['services']
            if s['state'] == 'up'}
        return all(h in got for h, _ in hosts)
    wait('nova-compute services', up)
    pl = Rest(conn, 'placement')
    pl.kw['headers'] = {'OpenStack-API-Version': 'placement 1.39'}

    def provider(host):
        """The host in Placement, once it has resources to offer."""
        for rp in pl.call('GET', '/resource_providers?name=' + host)['resource_providers']:
            if pl.call('GET', '/resource_providers/%s/inventories' % rp['uuid'])['inventories']:
                return '/resource_providers/%s/aggregates' % rp['uuid']

    for h, az in hosts:
        agg = c.ensure('/os-aggregates', 'aggregates', 'aggregate',
                       {'name': az, 'availability_zone': az}, name=az)
        aggregates = wait('resource provider of ' + h, lambda: provider(h))

        def action(name):
            return c.call('POST', '/os-aggregates/%s/action' % agg['id'],
                          json={name: {'host': h}})

        def zoned():
            """Nova copies a host's zone to Placement when the host is added to the
            zone. If that fails it logs a warning, and no server is ever placed in
            the zone, so the host is added again."""
            full = one(c.call('GET', '/os-aggregates')['aggregates'], name=az)
            if full['uuid'] in pl.call('GET', aggregates)['aggregates']:
                return h in full['hosts'] or action('add_host')
            if h in full['hosts']:
                action('remove_host')
            action('add_host')
            return full['uuid'] in pl.call('GET', aggregates)['aggregates']
        wait('zone of ' + h, zoned)

    with open(os.path.join(E['LAB_DIR'], 'ids.json'), 'w') as f:
        json.dump(ids, f, indent=1)
    packets = {}
    if E['LAB_RELEASE'] != 'zed':
        packets = {'program': os.path.join(E['LAB_HERE'], 'port.sh'),
                   'host': hosts[0][0], 'zone': hosts[0][1]}
    # What tests need to make projects of their own.
    with open(os.path.join(E['LAB_DIR'], 'lab.json'), 'w') as f:
        json.dump({'release': E['LAB_RELEASE'], 'versions': versions(),
                   'archive': archive(),
                   'auth_url': E['LAB_AUTH_URL'], 'region': REGION,
                   'admin_id': ids['admin_user'],
                   'admin_password': PASSWORD,
                   'admin_project': ids['admin_project'],
                   'public_network': ids['public_network'],
                   'image': ids['image_tiny'],
                   'flavor': '1', 'flavor_name': 'm1.tiny',
                   'zones': sorted({z for _, z in hosts}),
                   'packets': packets}, f, indent=1)


def probe():
    """Creates a server in each zone, until Nova can place them: the services are up
    a while before the scheduler knows the hosts, and meanwhile servers are ERROR."""
    lab = json.load(open(os.path.join(E['LAB_DIR'], 'lab.json')))
    c = Rest(admin(), 'compute', '', '2.53')
    for zone in lab['zones']:
        server = [None]

        def active():
            if not server[0]:
                server[0] = '/servers/' + c.call('POST', '/servers', json={'server': {
                    'name': 'probe-' + zone, 'flavorRef': lab['flavor'],
                    'imageRef': lab['image'], 'networks': 'none',
                    'availability_zone': zone}})['server']['id']
            now = c.call('GET', server[0])['server']
            if now['status'] == 'ERROR':
                c.call('DELETE', server[0])
                server[0] = None
                raise exc.SDKException(now['fault']['message'])
            return now['status'] == 'ACTIVE'
        wait('a server in zone ' + zone, active)
        c.call('DELETE', server[0])


{'identity': identity, 'resources': resources, 'probe': probe}[sys.argv[1]]()
