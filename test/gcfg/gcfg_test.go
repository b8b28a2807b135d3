// Package gcfg_test compares the reader of cloud.conf with gopkg.in/gcfg.v1, which OCCM uses: both
// read the same values, and refuse the same files.
package gcfg_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gcfg "gopkg.in/gcfg.v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// duration is read like OCCM's.
type duration struct{ time.Duration }

func (d *duration) UnmarshalText(text []byte) error {
	// This is the only extension: OCCM refuses a number without a unit; here it is in seconds.
	if len(text) > 0 && strings.Trim(string(text), "0123456789") == "" {
		text = append(text, 's')
	}
	read, err := time.ParseDuration(string(text))
	d.Duration = read
	return err
}

// word is a text of its own type, which gcfg reads with fmt's scanner.
type word string

// file has the keys and types of OCCM's configuration.
type file struct {
	Global struct {
		AuthURL                     string `gcfg:"auth-url"`
		UserID                      string `gcfg:"user-id"`
		Username                    string
		Password                    string
		TenantID                    string `gcfg:"tenant-id"`
		TenantName                  string `gcfg:"tenant-name"`
		TrustID                     string `gcfg:"trust-id"`
		TrusteeID                   string `gcfg:"trustee-id"`
		TrusteePassword             string `gcfg:"trustee-password"`
		DomainID                    string `gcfg:"domain-id"`
		DomainName                  string `gcfg:"domain-name"`
		TenantDomainID              string `gcfg:"tenant-domain-id"`
		TenantDomainName            string `gcfg:"tenant-domain-name"`
		UserDomainID                string `gcfg:"user-domain-id"`
		UserDomainName              string `gcfg:"user-domain-name"`
		Region                      string
		EndpointType                word   `gcfg:"os-endpoint-type"`
		CAFile                      string `gcfg:"ca-file"`
		TLSInsecure                 string `gcfg:"tls-insecure"`
		Token                       string `gcfg:"token"`
		CertFile                    string `gcfg:"cert-file"`
		KeyFile                     string `gcfg:"key-file"`
		CAFileContents              string
		UseClouds                   bool   `gcfg:"use-clouds"`
		CloudsFile                  string `gcfg:"clouds-file,omitempty"`
		Cloud                       string `gcfg:"cloud,omitempty"`
		ApplicationCredentialID     string `gcfg:"application-credential-id"`
		ApplicationCredentialName   string `gcfg:"application-credential-name"`
		ApplicationCredentialSecret string `gcfg:"application-credential-secret"`
	}
	Networking struct {
		IPv6SupportDisabled  bool     `gcfg:"ipv6-support-disabled"`
		PublicNetworkNames   []string `gcfg:"public-network-name"`
		InternalNetworkNames []string `gcfg:"internal-network-name"`
		AddressSortOrder     string   `gcfg:"address-sort-order"`
	}
	LoadBalancer struct {
		Enabled                        bool     `gcfg:"enabled"`
		LBVersion                      string   `gcfg:"lb-version"`
		SubnetID                       string   `gcfg:"subnet-id"`
		MemberSubnetID                 string   `gcfg:"member-subnet-id"`
		NetworkID                      string   `gcfg:"network-id"`
		FloatingNetworkID              string   `gcfg:"floating-network-id"`
		FloatingSubnetID               string   `gcfg:"floating-subnet-id"`
		FloatingSubnet                 string   `gcfg:"floating-subnet"`
		FloatingSubnetTags             string   `gcfg:"floating-subnet-tags"`
		LBMethod                       string   `gcfg:"lb-method"`
		LBProvider                     string   `gcfg:"lb-provider"`
		CreateMonitor                  bool     `gcfg:"create-monitor"`
		MonitorDelay                   duration `gcfg:"monitor-delay"`
		MonitorTimeout                 duration `gcfg:"monitor-timeout"`
		MonitorMaxRetries              uint     `gcfg:"monitor-max-retries"`
		MonitorMaxRetriesDown          uint     `gcfg:"monitor-max-retries-down"`
		ManageSecurityGroups           bool     `gcfg:"manage-security-groups"`
		InternalLB                     bool     `gcfg:"internal-lb"`
		NodeSelector                   string   `gcfg:"node-selector"`
		CascadeDelete                  bool     `gcfg:"cascade-delete"`
		FlavorID                       string   `gcfg:"flavor-id"`
		AvailabilityZone               string   `gcfg:"availability-zone"`
		EnableIngressHostname          bool     `gcfg:"enable-ingress-hostname"`
		IngressHostnameSuffix          string   `gcfg:"ingress-hostname-suffix"`
		MaxSharedLB                    int      `gcfg:"max-shared-lb"`
		ContainerStore                 string   `gcfg:"container-store"`
		ProviderRequiresSerialAPICalls bool     `gcfg:"provider-requires-serial-api-calls"`
		DefaultTLSContainerRef         string   `gcfg:"default-tls-container-ref"`
	}
	LoadBalancerClass map[string]*class
	Route             struct {
		RouterID string `gcfg:"router-id"`
	}
	Metadata struct {
		SearchOrder    string   `gcfg:"search-order"`
		RequestTimeout duration `gcfg:"request-timeout"`
	}
}

type class struct {
	FloatingNetworkID  string `gcfg:"floating-network-id,omitempty"`
	FloatingSubnetID   string `gcfg:"floating-subnet-id,omitempty"`
	FloatingSubnet     string `gcfg:"floating-subnet,omitempty"`
	FloatingSubnetTags string `gcfg:"floating-subnet-tags,omitempty"`
	NetworkID          string `gcfg:"network-id,omitempty"`
	SubnetID           string `gcfg:"subnet-id,omitempty"`
	MemberSubnetID     string `gcfg:"member-subnet-id,omitempty"`
}

// defaults are OCCM's defaults. This test also checks that they agree with the table.
func defaults() file {
	var f file
	f.LoadBalancer.Enabled = true
	f.LoadBalancer.LBMethod = "ROUND_ROBIN"
	f.LoadBalancer.LBProvider = "amphora"
	f.LoadBalancer.MonitorDelay.Duration = 5 * time.Second
	f.LoadBalancer.MonitorTimeout.Duration = 3 * time.Second
	f.LoadBalancer.MonitorMaxRetries = 1
	f.LoadBalancer.MonitorMaxRetriesDown = 3
	f.LoadBalancer.CascadeDelete = true
	f.LoadBalancer.IngressHostnameSuffix = "nip.io"
	f.LoadBalancer.MaxSharedLB = 2
	f.LoadBalancer.ContainerStore = "barbican"
	f.complete()
	return f
}

// complete sets what OCCM sets if it is empty after reading.
func (f *file) complete() {
	f.Metadata.SearchOrder = cmp.Or(f.Metadata.SearchOrder, "configDrive,metadataService")
	f.Metadata.RequestTimeout.Duration = cmp.Or(f.Metadata.RequestTimeout.Duration, time.Minute)
}

// region matches the first line of a region's section, which OCCM ignores.
var region = regexp.MustCompile(`(?i)\[\s*(global|networking|loadbalancer|route)\s+"`)

// compare returns the difference between the two readers, or "".
func compare(content string) string {
	theirs := defaults()
	theirError := gcfg.FatalOnly(gcfg.ReadStringInto(&theirs, content))
	theirs.complete()
	ours, _, ourError := cloudconf.Parse([]byte(content), cloudconf.Options{})
	if onlyOwn(ourError) || region.MatchString(content) ||
		theirs.LoadBalancer.MonitorMaxRetries > math.MaxInt ||
		theirs.LoadBalancer.MonitorMaxRetriesDown > math.MaxInt {
		return ""
	}
	switch {
	case theirError != nil && ourError == nil:
		return fmt.Sprintf("gcfg refuses it: %v", theirError)
	case theirError == nil && ourError != nil:
		return fmt.Sprintf("gcfg takes it, and it is refused: %v", ourError)
	case theirError != nil:
		return ""
	}
	var told []string
	sections := reflect.ValueOf(theirs)
	for i := range sections.NumField() {
		if name := sections.Type().Field(i).Name; name != "LoadBalancerClass" {
			told = append(told,
				differences(name, sections.Field(i), reflect.ValueOf(ours).FieldByName(name))...)
		}
	}
	if len(theirs.LoadBalancerClass) != len(ours.LoadBalancerClasses) {
		told = append(told,
			fmt.Sprintf("classes are %v, gcfg's %v", ours.LoadBalancerClasses,
				theirs.LoadBalancerClass))
	}
	for name, class := range theirs.LoadBalancerClass {
		told = append(told,
			differences("class "+name, reflect.ValueOf(*class),
				reflect.ValueOf(ours.LoadBalancerClasses[name]))...)
	}
	return strings.Join(told, "\n")
}

// onlyOwn reports whether a file was refused only because of sections that gcfg ignores.
func onlyOwn(err error) bool {
	problems, ok := err.(cloudconf.Problems)
	return ok && !slices.ContainsFunc(problems, func(p cloudconf.Problem) bool {
		return p.Section != "[Client]" && p.Section != "[Instances]"
	})
}

func differences(section string, theirs, ours reflect.Value) []string {
	var told []string
	for i := range theirs.NumField() {
		name := theirs.Type().Field(i).Name
		want, got := meaning(name, theirs.Field(i).Interface()), plain(ours.FieldByName(name))
		if fmt.Sprintf("%#v", want) != fmt.Sprintf("%#v", got) {
			told = append(told, fmt.Sprintf("%s.%s is %#v, gcfg's %#v", section, name, got, want))
		}
	}
	return told
}

// meaning converts a value to the type that OCCM uses.
func meaning(name string, value any) any {
	switch v := value.(type) {
	case duration:
		return v.Duration
	case uint:
		return int(v)
	case word:
		long := map[word]string{
			"publicURL": "public", "internalURL": "internal",
			"adminURL": "admin",
		}
		if short, ok := long[v]; ok {
			return short
		}
		return string(v)
	case string:
		switch name {
		case "TLSInsecure":
			return v == "true"
		case "AddressSortOrder":
			if strings.TrimSpace(v) == "" {
				return []string(nil)
			}
			list := strings.Split(v, ",")
			for i := range list {
				list[i] = strings.TrimSpace(list[i])
			}
			return list
		}
	}
	return value
}

// plain reveals secrets, which are printed without their value.
func plain(v reflect.Value) any {
	if secret, ok := v.Interface().(cloudconf.Secret); ok {
		return string(secret)
	}
	return v.Interface()
}

// seeds are contents that cover the format, and every key with values of every type.
func seeds(f interface{ Fatal(...any) }) []string {
	all := []string{
		"", "\n", "[a]", "[a\n", "[", "]", "[]", "[a]]", "[a \"b\"]", "[a \"b\" ; c\n]",
		"[ a\t\"b\\\"\\\\c\"\t] # d", "[a \"\"]", "[a \"b", "[a \"\\n\"]", "[a\"b\"]",
		"a = b", "[1]", "[a-b]\n-c = 1", "[ü]\nß = 1\n[ſ]", "[global]\nuſername = ſ\npaSSWord = K",
		"\ufeff[Global]", "[Global]\n\u2028region = x",
		"[LoadBalancerClass]\nsubnet-id = a\n[LoadBalancerClass \"a\"]\n[loadbalancerclass \"a\"]\nSUBNET-ID = b\n[LoadBalancerClass \"A\rb\"]\nx",
		"[Global \"x\"]\npassword\nuse-clouds = maybe\n[Foo]\nmonitor-delay\n",
		"[Networking]\npublic-network-name = a\npublic-network-name\npublic-network-name = \npublic-network-name = b;c\naddress-sort-order = \" 10.0.0.0/8 ,, x\"",
	}
	values := []string{
		"", "=", "= a", "= \"a b\" ", "= \" a\" b ", "= a # b", "= \"a # b\" ; c", "= a\\\n  b",
		"= a \\\r\n b \\\n", "= \\\"", "= \\\r\"", "= a\\b", "= \"a", "= \"a\nb\"",
		"= \"\\n\\t\\\\\\\"\"", "= \"\\\n\"", "= a\rb ", "\r= \r a \r", "= \"a\rb\"", "= a = b [c]",
		"= \x00", "= \xff", "= \ufffd", "= ü \u00a0", "b = a", "= a\\", "_b = a",
		"= true", "= True", "= yes", "= ON", "= 1", "= 0", "= off", "= \"no \"",
		"= 7", "= 007", "= 0x1F", "= 0X1f", "= -0x1", "= 0x", "= 0x_1_0", "= 1_0", "= +7", "= -7",
		"= \" 7\t\"", "= 7 7", "= 18446744073709551615", "= 99999999999999999999",
		"= 5s", "= 1h2m3.5s", "= -5s", "= 5", "= +5", "= .5s", "= 5 s", "= 99999999999",
		"= internal", "= \" internal \"", "= \"a b\"", "= \"a\\n\"", "= \"\\na\"", "= internalURL",
		"= \u00a0a\u00a0", "= \"a\\tb\"",
	}
	keys := []string{
		"Global password", "Global use-clouds", "Global os-endpoint-type", "Global tls-insecure",
		"Global CAFileContents", "Global ca-file-contents", "Global nothing",
		"LoadBalancer monitor-delay", "LoadBalancer monitor-max-retries",
		"LoadBalancer max-shared-lb", "LoadBalancer lb-provider",
		"Networking public-network-name", "Networking address-sort-order",
		"Metadata request-timeout", "Foo bar",
	}
	for _, key := range keys {
		section, name, _ := strings.Cut(key, " ")
		for _, value := range values {
			all = append(all, fmt.Sprintf("[%s]\n%s %s", section, name, value),
				fmt.Sprintf("[%s]\n%s%s\nregion = x\n", section, name, value))
		}
	}
	// The corpus also includes that of the package's own target.
	corpus, err := filepath.Glob("../../provider/openstack/cloudconf/testdata/*.conf")
	if err != nil || len(corpus) == 0 {
		f.Fatal("no files in provider/openstack/cloudconf/testdata: ", err)
	}
	for _, path := range corpus {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, string(content))
	}
	return all
}

func TestCloudConf_IsReadLikeGcfg(t *testing.T) {
	for _, content := range seeds(t) {
		if told := compare(content); told != "" {
			t.Errorf("%q\n%s", content, told)
		}
	}
}

// compare ignores this extension.
func TestNumberWithoutUnit_IsSecondsHereAndRefusedByOCCM(t *testing.T) {
	if _, err := time.ParseDuration("5"); err == nil {
		t.Error("Go reads 5 as a duration, and so does OCCM: remove the extension from the test")
	}
	c, _, err := cloudconf.Parse([]byte("[LoadBalancer]\nmonitor-delay = 5"), cloudconf.Options{})
	if err != nil || c.LoadBalancer.MonitorDelay != 5*time.Second {
		t.Errorf("5 is %v (%v), want 5s", c.LoadBalancer.MonitorDelay, err)
	}
}

func FuzzCloudConf(f *testing.F) {
	for _, content := range seeds(f) {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if told := compare(content); told != "" {
			t.Errorf("%q\n%s", content, told)
		}
	})
}
