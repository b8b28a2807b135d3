"""An amphora of the lab: Octavia's own agent and haproxy, in namespaces in place of a virtual machine.

    lab_amphora.py FOLDER ADDRESS PORT

FOLDER/etc is what Octavia's worker gives a server on its config drive. The agent listens on the machine's loopback, and its heartbeats go
out there, by sockets that are older than the network namespace: so there is no management network.
"""
import ctypes
import os
import signal
import socket
import subprocess
import sys

PR_SET_PDEATHSIG = 1

MEMORY = 32 << 10  # KiB

# The folders of an amphora's own, below FOLDER.
FOLDERS = {'etc': '/etc/octavia', 'lib': '/var/lib/octavia',
           'units': '/usr/lib/systemd/system', 'log': '/var/log'}


def mount(*args):
    subprocess.run(('mount',) + args, check=True)


def serve(folder, heartbeats):
    # The first process of a process namespace takes all others with it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    mount('--make-rprivate', '/')
    mount('-t', 'proc', 'proc', '/proc')
    mount('-t', 'tmpfs', 'tmpfs', '/run')
    os.mkdir('/run/netns')
    for name, inside in FOLDERS.items():
        mount('--bind', os.path.join(folder, name), inside)
    subprocess.run(('ip', 'link', 'set', 'lo', 'up'), check=True)
    # systemctl and what the agent calls from its package are in the folder bin beside this file.
    here = os.path.dirname(os.path.abspath(__file__))
    os.environ['PATH'] = os.path.join(here, 'amphora') + ':' + os.environ['PATH']
    with open('/etc/octavia/lab.conf', 'w') as f:
        f.write('[DEFAULT]\nuse_syslog = false\nuse_stderr = true\n')
    # As in an image of an amphora.
    with open('/var/lib/octavia/haproxy-default-user-group.conf', 'w') as f:
        f.write('global\n    group nogroup\n    no strict-limits\n')

    from octavia.amphorae.backends.agent.api_server import amphora_info
    from octavia.amphorae.backends.health_daemon import health_sender
    from octavia.cmd import agent

    stock_sender = health_sender.UDPStatusSender.__init__
    stock_agent = agent.AmphoraAgent.__init__
    stock_memory = amphora_info.AmphoraInfo._get_meminfo

    def sender(self):
        stock_sender(self)
        self.v4sock = heartbeats

    def without_syslog(self, app, options):
        stock_agent(self, app, {k: v for k, v in options.items() if not k.startswith('syslog')})

    def memory(self):
        return {k: min(v, MEMORY) for k, v in stock_memory(self).items()}

    health_sender.UDPStatusSender.__init__ = sender
    agent.AmphoraAgent.__init__ = without_syslog
    # Octavia gives half of the free memory to HAProxy's cache of TLS sessions.
    amphora_info.AmphoraInfo._get_meminfo = memory
    # gunicorn takes its socket from descriptor 3, as from systemd.
    os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
    sys.argv = ['amphora-agent', '--config-file', '/etc/octavia/amphora-agent.conf',
                '--config-file', '/etc/octavia/lab.conf']
    agent.main()


def main():
    folder, address, port = sys.argv[1:]
    listener = socket.create_server((address, int(port)))
    if listener.fileno() != 3:
        os.dup2(listener.fileno(), 3)
    heartbeats = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    os.unshare(os.CLONE_NEWNS | os.CLONE_NEWNET | os.CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        serve(folder, heartbeats)
        return
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


main()
