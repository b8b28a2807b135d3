package initfunc_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/hosting/initfunc"
	"github.com/fxccm/fxccm/provider/fake"
)

// idle is the constructor of a controller without work.
var idle = app.ControllerInitFuncConstructor{
	Constructor: func(
		app.ControllerInitContext, *config.CompletedConfig, cloudprovider.Interface,
	) app.InitFunc {
		return func(context.Context, genericcontrollermanager.ControllerContext) (
			controller.Interface, bool, error,
		) {
			return nil, true, nil
		}
	},
}

// manager returns a stopped Manager.
func manager(controllers ...ccm.Controller) (*ccm.Manager, error) {
	log := logr.Discard()
	return ccm.New(ccm.Params{
		Config:      ccm.DefaultConfig(),
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: controllers,
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:6443"},
		Logger:      &log,
	})
}

func TestControllers_UpstreamsNamesAndAliases_AreKept(t *testing.T) {
	constructors := map[string]app.ControllerInitFuncConstructor{
		"b-controller": idle,
		"a-controller": idle,
	}
	aliases := map[string]string{
		"bb": "b-controller", "b": "b-controller",
		"service": "service-lb-controller",
	}
	got := initfunc.Controllers(constructors, aliases)
	if len(got) != 2 || got[0].Name != "a-controller" || got[1].Name != "b-controller" {
		t.Fatalf("controllers are %+v", got)
	}
	if len(got[0].Aliases) != 0 || !slices.Equal(got[1].Aliases, []string{"b", "bb"}) {
		t.Errorf("aliases are %v and %v", got[0].Aliases, got[1].Aliases)
	}
	if got[0].DisabledByDefault || got[1].DisabledByDefault {
		t.Error("a controller is disabled by default without DisabledByDefault")
	}
}

func TestController_Options_ChangeTheController(t *testing.T) {
	c := initfunc.Controller("ipam", idle, initfunc.WithAliases("nodeipam"),
		initfunc.WithAliases("ranges"), initfunc.DisabledByDefault())
	if !c.DisabledByDefault || !slices.Equal(c.Aliases, []string{"nodeipam", "ranges"}) {
		t.Errorf("disabled by default: %v, aliases: %v", c.DisabledByDefault, c.Aliases)
	}
}

func TestController_WithoutAFunction_ErrorNamesIt(t *testing.T) {
	_, err := manager(initfunc.Controller("ipam", app.ControllerInitFuncConstructor{}))
	if err == nil || !strings.Contains(err.Error(), "ipam") ||
		!strings.Contains(err.Error(), "no New") {
		t.Errorf("error is %v, want one that names the controller and New", err)
	}
}

func TestControllers_NameOfOneOfTheFour_IsAnError(t *testing.T) {
	_, err := manager(initfunc.Controllers(app.DefaultInitFuncConstructors,
		names.CCMControllerAliases())...)
	if err == nil || !strings.Contains(err.Error(), names.CloudNodeController) {
		t.Errorf("error is %v, want one that names the duplicate controllers", err)
	}
}
