package project

// Packets is what a lab with packets offers.
type Packets struct {
	// Program connects network namespaces to ports: tools/openstack-lab/port.sh.
	Program string `json:"program"`
	// Host is the compute host whose ports have packets, and Zone its availability zone.
	Host string `json:"host"`
	Zone string `json:"zone"`
}

// LabPackets returns what the lab offers, if tests run on a lab that has packets.
func LabPackets(t T) (p Packets, found bool) {
	t.Helper()
	if !OnLab() {
		return p, false
	}
	l := readLab(t)
	return l.Packets, l.Packets.Program != ""
}
