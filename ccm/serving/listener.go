package serving

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// listen opens BindAddress and SecurePort.
func (s *settings) listen(ctx context.Context) (net.Listener, error) {
	address := net.JoinHostPort(s.cfg.BindAddress, strconv.Itoa(s.cfg.SecurePort))
	config := net.ListenConfig{
		Control: shareSocket(s.cfg.PermitPortSharing, s.cfg.PermitAddressSharing),
	}
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil,
			fmt.Errorf("serving: cannot open %s (--bind-address, --secure-port): %w", address, err)
	}
	return listener, nil
}
