package serving

import (
	"net"
	"testing"

	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
)

func TestListen_TwoListenersShareAPort_OnlyIfPermitted(t *testing.T) {
	s := &settings{cfg: servingconfig.Config{
		BindAddress: "127.0.0.1", PermitPortSharing: true, PermitAddressSharing: true,
	}}
	first, err := s.listen(t.Context()) // port 0: a free one
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	s.cfg.SecurePort = first.Addr().(*net.TCPAddr).Port
	second, err := s.listen(t.Context())
	if err != nil {
		t.Fatalf("the port is not shared although that is permitted: %v", err)
	}
	defer second.Close()

	s.cfg.PermitPortSharing, s.cfg.PermitAddressSharing = false, false
	if third, err := s.listen(t.Context()); err == nil {
		third.Close()
		t.Error("the port is shared without permission")
	}
}
