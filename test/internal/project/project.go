// Package project gives a test its own project in an OpenStack, with a network of nodes behind a
// router. The OpenStack is the simulator of package openstacktest, or, if the environment variable
// FXCCM_OPENSTACK_LAB names the folder of a lab (make openstack-lab), a real Keystone, Nova,
// Neutron and Octavia. A test that passes on both shows that the simulator behaves like the real
// one, as far as the test checks.
package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// LabVariable names the environment variable with the folder of a lab.
const LabVariable = "FXCCM_OPENSTACK_LAB"

// A Project is a project in an OpenStack, as its user sees it.
type Project struct {
	t T
	// Simulator is nil on a real OpenStack.
	Simulator *openstacktest.Cloud
	// Wire is between a provider that the Project opens and OpenStack.
	Wire *Wire

	// ID and Name identify the project.
	ID, Name string
	// Public is the external network, Network the nodes' network, Router the router between them,
	// and Subnets the nodes' subnets by IP version (4: 10.0.0.0/16; 6: fd00::/64, only WithIPv6).
	Public, Network, Router string
	NetworkName             string
	Subnets                 map[int]string
	// Zones are the zones of servers, at least two.
	Zones []string
	// Flavor and Image are for servers.
	Flavor, FlavorName, Image string

	user, admin *API
	// operator is an administrator in another project.
	operator    *API
	credentials *openstacktest.Credentials
	emptied     bool
}

// Option changes the project of New.
type Option func(*options)

type options struct {
	ipv6, bare bool
	simulator  []openstacktest.Option
}

// WithIPv6 adds IPv6 to the nodes' network.
func WithIPv6() Option { return func(o *options) { o.ipv6 = true } }

// WithoutNetwork omits the network and the router.
func WithoutNetwork() Option { return func(o *options) { o.bare = true } }

// OnSimulator are options that only the simulator uses.
func OnSimulator(more ...openstacktest.Option) Option {
	return func(o *options) { o.simulator = append(o.simulator, more...) }
}

// lab is the content of lab.json in the lab's folder.
type lab struct {
	Release       string   `json:"release"`
	AuthURL       string   `json:"auth_url"`
	Region        string   `json:"region"`
	AdminID       string   `json:"admin_id"`
	AdminPassword string   `json:"admin_password"`
	AdminProject  string   `json:"admin_project"`
	PublicNetwork string   `json:"public_network"`
	Image         string   `json:"image"`
	Flavor        string   `json:"flavor"`
	FlavorName    string   `json:"flavor_name"`
	Zones         []string `json:"zones"`
	Packets       Packets  `json:"packets"`
}

// readLab reads lab.json.
func readLab(t T) (l lab) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv(LabVariable), "lab.json"))
	if err != nil {
		t.Fatalf("%s names no lab that is up (make openstack-lab): %v", LabVariable, err)
	}
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatalf("%s: %v", LabVariable, err)
	}
	return l
}

// OnLab reports whether tests run on the real OpenStack.
func OnLab() bool { return os.Getenv(LabVariable) != "" }

// LabRelease is the release of the real OpenStack on which tests run.
func LabRelease(t T) string {
	t.Helper()
	return readLab(t).Release
}

// New creates a project. At the end of the test it is deleted with all its objects.
func New(t T, opts ...Option) *Project {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	p := &Project{t: t, Wire: &Wire{}, Subnets: map[int]string{}}
	if OnLab() {
		p.onLab()
	} else {
		p.onSimulator(o)
	}
	t.Cleanup(p.close)
	if !o.bare {
		p.connect(o)
	}
	return p
}

// Real reports whether the project is in a real OpenStack.
func (p *Project) Real() bool { return p.Simulator == nil }

// In is the project for a subtest.
func (p *Project) In(t T) *Project {
	other := *p
	other.t = t
	return &other
}

// User sends requests as the project's user.
func (p *Project) User() Requests { return p.user.In(p.t) }

// Admin sends requests as an administrator. On a real OpenStack the administrator is in the
// project, so created objects belong to it.
func (p *Project) Admin() Requests { return p.admin.In(p.t) }

func (p *Project) onSimulator(o options) {
	s := openstacktest.NewCloud(o.simulator...)
	p.Simulator = s
	c := s.Credentials()
	p.credentials, p.ID, p.Name = &c, c.ProjectID, c.ProjectName
	p.user = newAPI(c.AuthURL, byPassword(c.UserID, c.Password, c.ProjectID))
	operators := s.AddProject(openstacktest.Project{Name: "operators", Admin: true})
	p.admin = newAPI(c.AuthURL,
		byPassword(operators.UserID, operators.Password, operators.ProjectID))
	p.Public = s.AddNetwork(
		openstacktest.Network{Name: "public", External: true, ProjectID: operators.ProjectID})
	s.AddSubnet(openstacktest.Subnet{
		NetworkID: p.Public, CIDR: "198.18.0.0/16",
		ProjectID: operators.ProjectID,
	})
	p.Zones = []string{"az-a", "az-b"}
	for _, zone := range p.Zones {
		s.AddZone(zone)
	}
	p.Flavor, p.FlavorName = s.AddFlavor(openstacktest.Flavor{Name: "m1.tiny"}), "m1.tiny"
}

func (p *Project) onLab() {
	p.t.Helper()
	l := readLab(p.t)
	p.Public, p.Image, p.Flavor, p.FlavorName, p.Zones = l.PublicNetwork, l.Image, l.Flavor,
		l.FlavorName, l.Zones
	p.operator = newAPI(l.AuthURL, byPassword(l.AdminID, l.AdminPassword, l.AdminProject))
	p.t.Cleanup(p.operator.close)
	keystone := p.operator.In(p.t)
	p.Name = "test-" + rand.String(8)
	p.ID = ID(keystone.Create(Identity, "/projects", "project",
		Object{"name": p.Name, "domain_id": "default"}))
	password := rand.String(20)
	user := ID(keystone.Create(Identity, "/users", "user",
		Object{"name": p.Name, "domain_id": "default", "password": password}))
	for _, role := range keystone.List(Identity, "/roles", "roles") {
		switch Text(role, "name") {
		case "member", "reader", "load-balancer_member", "creator":
			keystone.Must(http.MethodPut, Identity,
				"/projects/"+p.ID+"/users/"+user+"/roles/"+ID(role), nil)
		case "admin":
			keystone.Must(http.MethodPut, Identity,
				"/projects/"+p.ID+"/users/"+l.AdminID+"/roles/"+ID(role), nil)
		}
	}
	p.t.Cleanup(func() {
		// Its remaining resources would have no owner.
		if !p.emptied {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		for _, path := range []string{"/users/" + user, "/projects/" + p.ID} {
			if answer, err := p.operator.Do(ctx, http.MethodDelete, Identity, path,
				nil); err != nil || answer.Status != http.StatusNoContent {
				p.t.Errorf("delete %s: %v %s", path, err, answer)
			}
		}
	})
	p.credentials = &openstacktest.Credentials{
		AuthURL: l.AuthURL, Region: l.Region, ProjectID: p.ID, ProjectName: p.Name,
		DomainID: "default", DomainName: "Default",
		UserID: user, Username: p.Name, Password: password,
	}
	p.user = newAPI(l.AuthURL, byPassword(user, password, p.ID))
	p.admin = newAPI(l.AuthURL, byPassword(l.AdminID, l.AdminPassword, p.ID))
}

// Credentials are all ways to log in to the project.
func (p *Project) Credentials() openstacktest.Credentials {
	p.t.Helper()
	c := p.credentials
	if !p.Real() || c.Token != "" {
		return *c
	}
	user := p.User()
	c.Token, _, _ = p.user.session(p.t.Context(), true)
	name := "ccm"
	credential := user.Create(Identity, "/users/"+c.UserID+"/application_credentials",
		"application_credential", Object{"name": name})
	c.ApplicationCredentialID, c.ApplicationCredentialName, c.ApplicationCredentialSecret = ID(
		credential), name, Text(credential, "secret")
	// A trustee must be another user than the project's own.
	trustee := p.Admin().Create(Identity, "/users", "user",
		Object{"name": p.Name + "-trustee", "domain_id": "default", "password": c.Password})
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, _ = p.admin.Do(ctx, http.MethodDelete, Identity, "/users/"+ID(trustee), nil)
	})
	trust := user.Create(Identity, "/OS-TRUST/trusts", "trust", Object{
		"trustor_user_id": c.UserID, "trustee_user_id": ID(trustee), "project_id": p.ID,
		"impersonation": true,
		"roles":         []Object{{"name": "member"}, {"name": "load-balancer_member"}},
	})
	c.TrustID, c.TrusteeID, c.TrusteeName, c.TrusteePassword = ID(trust), ID(trustee),
		p.Name+"-trustee", c.Password
	return *c
}

// Config logs in with a password, and serves load balancers with floating IPs of the public
// network.
func (p *Project) Config() cloudconf.Config {
	c, cfg := p.credentials, cloudconf.Default()
	cfg.Global.AuthURL, cfg.Global.Region = c.AuthURL, c.Region
	cfg.Global.Username, cfg.Global.Password, cfg.Global.DomainName = c.Username,
		cloudconf.Secret(c.Password), c.DomainName
	cfg.Global.TenantName = c.ProjectName
	cfg.LoadBalancer.FloatingNetworkID = p.Public
	return cfg
}

// connect makes the nodes' network and the router.
func (p *Project) connect(o options) {
	p.t.Helper()
	user := p.User()
	p.NetworkName = "nodes"
	p.Network = p.AddNetwork(p.NetworkName)
	p.Subnets[4] = p.AddSubnet(p.Network, "10.0.0.0/16")
	p.Router = ID(user.Create(Network, "/routers", "router",
		Object{"name": "router", "external_gateway_info": Object{"network_id": p.Public}}))
	p.Connect(p.Router, p.Subnets[4])
	if o.ipv6 {
		p.Subnets[6] = p.AddSubnet(p.Network, "fd00::/64")
		p.Connect(p.Router, p.Subnets[6])
	}
}

// AddNetwork makes a network.
func (p *Project) AddNetwork(name string) (id string) {
	p.t.Helper()
	return ID(p.User().Create(Network, "/networks", "network", Object{"name": name}))
}

// AddSubnet makes a subnet without DHCP.
func (p *Project) AddSubnet(network, cidr string) (id string) {
	p.t.Helper()
	family := 4
	if strings.Contains(cidr, ":") {
		family = 6
	}
	return ID(p.User().Create(Network, "/subnets", "subnet", Object{
		"network_id": network, "cidr": cidr, "ip_version": family, "enable_dhcp": false,
	}))
}

// Connect connects the router to the subnet.
func (p *Project) Connect(router, subnet string) {
	p.t.Helper()
	p.User().Must(http.MethodPut, Network, "/routers/"+router+"/add_router_interface",
		Object{"subnet_id": subnet})
}

// A Server is a server of Nova, with its first port.
type Server struct {
	ID, Name, Port string
	// Addresses are those of the port, by IP version.
	Addresses map[int]string
}

// ProviderID is the provider ID of the node.
func (s Server) ProviderID() string { return "openstack:///" + s.ID }

// AddServer creates a server with a port in the nodes' network, and waits until it is ACTIVE. more
// are attributes of the request, such as "metadata", or "networks" for other ports.
func (p *Project) AddServer(name string, more ...Object) Server {
	p.t.Helper()
	return p.AddServers([]string{name}, more...)[0]
}

// AddServers makes several at once.
func (p *Project) AddServers(names []string, more ...Object) []Server {
	p.t.Helper()
	servers := make([]Server, len(names))
	p.Together(len(names), 8, func(ctx context.Context, i int) error {
		attributes := Object{
			"name": names[i], "flavorRef": p.Flavor, "imageRef": p.Image,
			"availability_zone": p.Zones[i%len(p.Zones)],
			"networks":          []Object{{"uuid": p.Network}},
		}
		for _, m := range more {
			for key, value := range m {
				attributes[key] = value
			}
		}
		answer, err := p.user.Do(ctx, http.MethodPost, Compute, "/servers",
			Object{"server": attributes}, "OpenStack-API-Version", "compute 2.60")
		if err != nil {
			return err
		}
		if answer.Status != http.StatusAccepted {
			return fmt.Errorf("%s", answer)
		}
		servers[i] = Server{
			ID: ID(answer.Inner("server")), Name: names[i],
			Addresses: map[int]string{},
		}
		return nil
	})
	for i := range servers {
		p.WaitServer(servers[i].ID, "ACTIVE")
	}
	for i := range servers {
		for _, port := range p.User().List(Network, "/ports?device_id="+servers[i].ID, "ports") {
			if servers[i].Port != "" && Text(port, "network_id") != p.Network {
				continue
			}
			servers[i].Port = ID(port)
			ips, _ := port["fixed_ips"].([]any)
			for _, ip := range ips {
				fixed, _ := ip.(Object)
				address, family := Text(fixed, "ip_address"), 4
				if strings.Contains(address, ":") {
					family = 6
				}
				servers[i].Addresses[family] = address
			}
		}
	}
	return servers
}

// Together calls do n times, some in parallel, and fails the test with all errors.
func (p *Project) Together(n, atOnce int, do func(ctx context.Context, i int) error) {
	p.t.Helper()
	errs, slots := make(chan error, n), make(chan struct{}, atOnce)
	for i := range n {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs <- do(p.t.Context(), i)
		}()
	}
	var all []error
	for range n {
		all = append(all, <-errs)
	}
	if err := errors.Join(all...); err != nil {
		p.t.Fatal(err)
	}
}

// WaitServer waits until the server has a status, such as "ACTIVE" or "SHUTOFF"; "" means until it
// is deleted.
func (p *Project) WaitServer(id, status string) {
	p.t.Helper()
	p.Wait("server "+id+" is "+status, func() error {
		answer := p.User().Try(http.MethodGet, Compute, "/servers/"+id, nil)
		is := Text(answer.Inner("server"), "status")
		switch {
		case status == "" && answer.Status == http.StatusNotFound, status != "" && is == status:
			return nil
		case is == "ERROR":
			p.t.Fatalf("%s", answer)
		}
		return fmt.Errorf("%d, %q", answer.Status, is)
	})
}

// WaitBalancer waits until a load balancer is ACTIVE, or gone.
func (p *Project) WaitBalancer(id string, gone ...bool) Object {
	p.t.Helper()
	var found Object
	p.Wait("load balancer "+id+" is done", func() error {
		answer := p.User().Try(http.MethodGet, LoadBalancer, "/lbaas/loadbalancers/"+id, nil)
		found = answer.Inner("loadbalancer")
		is := Text(found, "provisioning_status")
		switch {
		case len(gone) > 0 && (answer.Status == http.StatusNotFound || is == "DELETED"),
			len(gone) == 0 && is == "ACTIVE":
			return nil
		case is == "ERROR":
			p.t.Fatalf("%s", answer)
		}
		return fmt.Errorf("%d, %q", answer.Status, is)
	})
	return found
}

// Wait waits until check returns nil. A real OpenStack may need many minutes.
func (p *Project) Wait(what string, check func() error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 6*time.Minute)
	defer cancel()
	if err := waittest.Poll(ctx, check); err != nil {
		p.t.Fatalf("timed out waiting until %s; last seen: %v", what, err)
	}
}

// Act is an action of Nova's on a server: Act(id, "os-stop").
func (p *Project) Act(server, action string) {
	p.t.Helper()
	p.User().Must(http.MethodPost, Compute, "/servers/"+server+"/action", Object{action: nil})
}
