package neutron

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The page names how long each lookup is cached.
func TestPage_CachedFacts_HaveTheirAges(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/explanation/openstack.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[time.Duration]string{
		10 * time.Minute: "after 10 minutes", time.Hour: "after an hour",
	}
	for fact, age := range map[string]time.Duration{
		"subnets": subnetAge, "addresses of servers in the members' subnet": subnetAge,
		"networks": networkAge, "external networks": networkAge,
		"the routers of a subnet with their gateways": networkAge, "certificates": certificateAge,
		"names of security groups": groupNamesAge, "Neutron refuses or drops tags": tagsAge,
	} {
		isDocumented := false
		for row := range strings.Lines(string(page)) {
			facts, again, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
			for each := range strings.SplitSeq(facts, ", ") {
				isDocumented = isDocumented || strings.HasSuffix(each, fact) &&
					texts[age] != "" && strings.HasPrefix(again, texts[age])
			}
		}
		if !isDocumented {
			t.Errorf("no row has %q with %s", fact, age)
		}
	}
}
