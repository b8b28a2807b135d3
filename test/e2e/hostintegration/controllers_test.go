package hostintegration_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

// panicking panics when it receives a ConfigMap of the name.
func panicking(name string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if obj.(*corev1.ConfigMap).Name == name {
			panic("cannot bear " + name)
		}
	}}
}

func TestEventHandlers_ThatPanic_DoNotEndTheProcess(t *testing.T) {
	t.Parallel()
	t.Run("of a controller", func(t *testing.T) {
		t.Parallel()
		name := objectName(t)
		fragile := controller("fragile", func(term *ccm.Term) (ccm.RunnableFunc, error) {
			_, err := term.Informers().Core().V1().ConfigMaps().Informer().AddEventHandler(
				panicking(name))
			return untilEnd, err
		})
		fragile.RestartOnFailure = true
		app := startApp(t, newCloud(t), only("fragile", "steady"),
			ccmtest.WithControllers(fragile, idle("steady")))
		app.WaitReady()
		createConfigMap(t, name)
		failed := waitController(t, app.Manager, "fragile",
			func(s status.Controller) bool { return s.State == status.ControllerFailed })
		if !strings.Contains(failed.Reason,
			"panic in an event handler of configmaps: cannot bear "+name) {
			t.Errorf("its reason is %q", failed.Reason)
		}
		if s := app.Manager.Status(); s.Term != 1 || !s.Ready ||
			statusOf(t, app.Manager, "steady").State != status.ControllerRunning {
			t.Errorf("the others were disturbed: %+v", s)
		}
	})
	t.Run("of the provider", func(t *testing.T) {
		t.Parallel()
		name := objectName(t)
		cloud := newCloud(t)
		app := startApp(t, cloud, only("steady"), ccmtest.WithControllers(idle("steady")),
			ccmtest.WithProvider(
				cloud.CCMProvider(
					fake.WithSetInformers(func(factory informers.SharedInformerFactory) {
						if _, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(
							panicking(name)); err != nil {
							panic(err)
						}
					}))))
		app.WaitReady()
		createConfigMap(t, name)
		current := ccmtest.Eventually(t, "the term has failed",
			ccmtest.Status(app.Manager,
				func(s status.Manager) bool { return s.State == status.Degraded }))
		if !strings.Contains(current.Reason, "cannot bear "+name) || current.RetryAt.IsZero() {
			t.Errorf("status: %+v", current)
		}
	})
}
