//go:build unix

package ccm_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
)

// hostProcess makes the test binary a host that runs an app, whose Manager leads when a later hook
// starts. Its value says what that hook does.
const hostProcess = "FXCCM_TEST_HOST_PROCESS"

func waits(ctx context.Context, _ <-chan os.Signal) error {
	<-ctx.Done()
	return ctx.Err()
}

// laterHooks are the hooks of that host.
var laterHooks = map[string]func(ctx context.Context, signals <-chan os.Signal) error{
	"times out": waits,
	"waits":     waits,
	"waits for the signal": func(_ context.Context, signals <-chan os.Signal) error {
		<-signals
		return nil
	},
	"panics": func(context.Context, <-chan os.Signal) error { panic("the hook panics") },
}

// runHostProcess runs the app, as main would.
func runHostProcess(later string) {
	p := standaloneParams("mine")
	startTimeout := limit
	if later == "times out" {
		startTimeout = 5 * time.Second
	}
	var m *ccm.Manager
	var signals chan os.Signal
	app := fx.New(host(p, supplyProvider(p.Providers[0]), supplyController(idle("mine")),
		fx.Populate(&m), fx.StartTimeout(startTimeout),
		fx.Invoke(func(lifecycle fx.Lifecycle) {
			lifecycle.Append(fx.Hook{OnStart: func(ctx context.Context) error {
				for !m.Status().Ready && ctx.Err() == nil {
					time.Sleep(5 * time.Millisecond)
				}
				fmt.Println("leading:", m.Status().Ready)
				return laterHooks[later](ctx, signals)
			}})
		})))
	if later == "waits for the signal" {
		signals = make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		app.Done() // from here on, fx receives signals
	}
	app.Run()
	fmt.Println("stopped:", m.Status().State == status.Stopped)
}

// A host that calls App.Run ends with a start that fails, and with it all that the start began.
func TestModule_ProcessEndsDuringTheStart_ManagerEndsWithIt(t *testing.T) {
	if later := os.Getenv(hostProcess); later != "" {
		runHostProcess(later)
		return
	}
	for name, test := range map[string]struct {
		later  string
		kill   bool
		want   func(syscall.WaitStatus) bool
		drains bool
	}{
		"start timeout": {
			later: "times out",
			want:  func(s syscall.WaitStatus) bool { return s.ExitStatus() == 1 },
		},
		"panic": {
			later: "panics",
			// Fx takes the end of the goroutine for a failed start, and App.Run may exit with
			// 1 before the runtime exits with 2.
			want: func(s syscall.WaitStatus) bool { return s.ExitStatus() > 0 },
		},
		// Fx receives signals after the start.
		"signal": {
			later: "waits", kill: true,
			want: func(s syscall.WaitStatus) bool { return s.Signal() == syscall.SIGTERM },
		},
		"signal that fx receives": {
			later: "waits for the signal", kill: true, drains: true,
			want: func(s syscall.WaitStatus) bool { return s.ExitStatus() == 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			child := exec.CommandContext(ctx, program, "-test.run=^"+
				"TestModule_ProcessEndsDuringTheStart_ManagerEndsWithIt$")
			child.Env = append(os.Environ(), hostProcess+"="+test.later)
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			led, drained := false, false
			for lines.Scan() {
				switch lines.Text() {
				case "leading: true":
					led = true
					if test.kill {
						if err := child.Process.Signal(syscall.SIGTERM); err != nil {
							t.Error(err)
						}
					}
				case "stopped: true":
					drained = true
				}
			}
			_ = child.Wait() // its error is the state
			if ended := child.ProcessState.Sys().(syscall.WaitStatus); !test.want(ended) {
				t.Errorf("the process ended with %s", child.ProcessState)
			}
			if !led {
				t.Error("the Manager did not lead during the start")
			}
			if drained != test.drains {
				t.Errorf("the Manager has drained: %t, want %t", drained, test.drains)
			}
		})
	}
}
