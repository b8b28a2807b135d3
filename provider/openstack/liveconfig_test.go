package openstack_test

import (
	"errors"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func parse(t *testing.T, text string) cloudconf.Config {
	t.Helper()
	config, _, err := cloudconf.Parse([]byte(text), cloudconf.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// liveTerm is a term of a provider whose credentials can be replaced.
type liveTerm struct {
	t      *testing.T
	sim    *openstacktest.Cloud
	server string
	config *openstack.LiveConfig
	cloud  cloudprovider.Interface
}

func newLiveTerm(t *testing.T, options ...openstack.Option) *liveTerm {
	t.Helper()
	l := &liveTerm{t: t, sim: openstacktest.NewCloud()}
	t.Cleanup(l.sim.Close)
	l.server = l.sim.AddServer(openstacktest.Server{Name: "node-1"})
	l.config = openstack.NewLiveConfig(parse(t, l.sim.CloudConf("token")))
	var err error
	l.cloud, err = openstack.Provider(append(options, openstack.WithLiveConfig(l.config))...).New(
		t.Context(), ccm.ProviderEnv{Manager: "m"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.cloud.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// find sends a request for the server.
func (l *liveTerm) find() error {
	node := &corev1.Node{}
	node.Name, node.Spec.ProviderID = "node-1", "openstack:///"+l.server
	instances, _ := l.cloud.InstancesV2()
	exists, err := instances.InstanceExists(l.t.Context(), node)
	if err == nil && !exists {
		err = errors.New("the server is absent")
	}
	return err
}

func (l *liveTerm) replace(text string, wantKept bool) error {
	l.t.Helper()
	isKept, err := l.config.Replace(l.t.Context(), parse(l.t, text))
	if isKept != wantKept {
		l.t.Errorf("the term continues: %t, want %t (%v)", isKept, wantKept, err)
	}
	return err
}

func TestLiveConfig_CredentialsAreReplaced_TheTermContinuesWithTheNewOnes(t *testing.T) {
	for name, options := range map[string][]openstack.Option{
		"alone":  nil,
		"shared": {openstack.WithShared(openstack.NewShared(openstack.SharedConfig{}))},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLiveTerm(t, options...)
			if err := l.find(); err != nil {
				t.Fatal(err)
			}
			wrong := l.sim.Credentials()
			wrong.ApplicationCredentialSecret = "wrong"
			if err := l.replace(wrong.CloudConf("application-credential"),
				false); err == nil {
				t.Error("Keystone refuses the credentials, and there is no error")
			}
			if err := l.find(); err != nil {
				t.Errorf("after credentials that Keystone refused: %v", err)
			}
			if err := l.replace(l.sim.CloudConf("application-credential"),
				true); err != nil {
				t.Fatal(err)
			}
			l.sim.RevokeTokens() // that of the first configuration cannot be renewed
			if err := l.find(); err != nil {
				t.Errorf("with the new credentials: %v", err)
			}
		})
	}
}

func TestLiveConfig_MoreThanCredentialsDiffers_NeedsANewTerm(t *testing.T) {
	l := newLiveTerm(t)
	now := l.sim.CloudConf("token")
	if err := l.replace(now, false); err != nil { // the project is not known
		t.Errorf("without a login: %v", err)
	}
	if err := l.find(); err != nil {
		t.Fatal(err)
	}
	other := l.sim.AddProject(openstacktest.Project{Name: "other"})
	for name, text := range map[string]string{
		"another project": other.CloudConf("application-credential"),
		"another section": now + "[LoadBalancer]\nenabled = false\n",
		"a named project": l.sim.CloudConf("password"),
	} {
		if err := l.replace(text, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := l.find(); err != nil {
			t.Errorf("%s: the term does not continue with its credentials: %v", name, err)
		}
	}
}

func TestLiveConfig_NoTermIsOpen_TheNextOneHasTheNewCredentials(t *testing.T) {
	l := newLiveTerm(t)
	provider := openstack.Provider(openstack.WithLiveConfig(l.config))
	if err := l.cloud.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.replace(l.sim.CloudConf("application-credential"),
		true); err != nil {
		t.Fatal(err)
	}
	l.sim.RevokeTokens()
	var err error
	if l.cloud, err = provider.New(t.Context(), ccm.ProviderEnv{Manager: "m"}); err != nil {
		t.Fatal(err)
	}
	if err := l.find(); err != nil {
		t.Error(err)
	}
}
