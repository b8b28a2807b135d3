package ccmtest_test

import (
	"errors"
	"testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
)

func TestApp_WhenStartedAgain_WorksAgain(t *testing.T) {
	cloud := cloudWith(t, "node-1", "node-2", "node-3")
	app := ccmtest.StartApp(t, cluster, cloud, ccmtest.WithoutStart())
	for round, node := range []string{"node-1", "node-2", "node-3"} {
		app.Start()
		if current := app.WaitReady(); current.Term != uint64(round+1) {
			t.Errorf("round %d is term %d", round+1, current.Term)
		}
		ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode(node))
		ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(app.Client, node))
		app.Stop()
		ccmtest.Eventually(t, "the Manager is stopped",
			ccmtest.State(app.Manager, status.Stopped))
		if release := app.Elector.WaitReleased(t); !release.Drained ||
			!errors.Is(release.Err, ccm.ErrStopped) || release.Number != round+1 {
			t.Errorf("round %d ended with %+v", round+1, release)
		}
		app.VerifyNoLeaks()
	}
	if overlaps := cloud.ConcurrentCalls(); len(overlaps) > 0 {
		t.Errorf("two terms changed the cloud at once: %+v", overlaps)
	}
}

func TestManager_WhenStartedAgain_WorksAgain(t *testing.T) {
	cloud := cloudWith(t, "node-1", "node-2")
	c := ccmtest.StartManager(t, cluster, cloud, ccmtest.WithoutStart())
	for _, node := range []string{"node-1", "node-2"} {
		c.Start()
		c.WaitReady()
		ccmtest.CreateNode(t, c.Client, ccmtest.TaintedNode(node))
		ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(c.Client, node))
		c.VerifyNoLeaks()
	}
}
