"""nova-compute with Nova's fake hypervisor, whose host keeps its identity.

The stock driver makes up another one at each start. Since 2023.1 nova-compute refuses to start on a host that has lost its own.
"""
from nova.cmd import compute
from nova.virt import fake
from nova.virt import node

stock_resource = fake.FakeDriver.get_available_resource


def get_available_resource(self, nodename):
    status = stock_resource(self, nodename)
    if status:
        status['uuid'] = node.get_local_node_uuid()
    return status


def get_nodenames_by_uuid(self, refresh=False):
    return {node.get_local_node_uuid(): self.get_available_nodes()[0]}


def main():
    fake.FakeDriver.get_available_resource = get_available_resource
    fake.FakeDriver.get_nodenames_by_uuid = get_nodenames_by_uuid
    compute.main()
