package initfunc

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/cloud-provider/app"
	cpconfig "k8s.io/cloud-provider/config"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
)

// adapter adapts one controller with an InitFunc.
type adapter struct {
	name        string
	constructor app.ControllerInitFuncConstructor
	configure   []func(*cpconfig.CloudControllerManagerConfiguration)
}

// build calls the InitFunc for one term. ctx is the term's context.
func (a adapter) build(ctx context.Context, t term) (ccm.Runnable, error) {
	ctx = klog.NewContext(ctx, t.Logger().WithValues("controller", a.name))
	component, err := a.componentConfig(t)
	if err != nil {
		return nil, err
	}
	env, ctx, err := newEnvironment(ctx, t, a.constructor.InitContext.ClientName, component)
	if err != nil {
		return nil, err
	}
	var run ccm.Runnable
	// The call is deferred, because an InitFunc may panic.
	defer func() {
		if run == nil {
			env.end()
		}
	}()
	run, err = a.start(ctx, t, env)
	return run, err
}

func (a adapter) componentConfig(t term) (cpconfig.CloudControllerManagerConfiguration, error) {
	provider := ""
	if t.Cloud() != nil { // it is nil without leader election
		provider = t.Cloud().ProviderName()
	}
	component, err := componentConfig(t.Config(), provider)
	if err != nil {
		return component, err
	}
	for _, change := range a.configure {
		change(&component)
	}
	return component, nil
}

func (a adapter) start(ctx context.Context, t term, env *environment) (ccm.Runnable, error) {
	initialize := a.constructor.Constructor(a.constructor.InitContext, env.completed, t.Cloud())
	if initialize == nil {
		return nil, errors.New("its constructor returned no InitFunc")
	}
	controller, started, err := initialize(ctx, env.forController)
	if err == nil {
		err = env.clients.failure()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("its InitFunc: %w", err)
	case !started:
		return nil, fmt.Errorf("%w: its InitFunc did not start it; the log may tell why",
			ccm.ErrSkip)
	}
	return newRunnable(env, controller), nil
}
