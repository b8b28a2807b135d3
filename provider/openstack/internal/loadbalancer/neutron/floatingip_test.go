package neutron

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/capability"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func ids[T item](all []T) []string {
	var found []string
	for _, each := range all {
		found = append(found, each.identifier())
	}
	return found
}

func TestFloatingIPsOf_AnyOfTheReasons_IsOneList(t *testing.T) {
	s := newSite(t)
	vip := s.addPort("")
	onPort := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external, PortID: vip})
	tagged := s.AddFloatingIP(
		openstacktest.FloatingIP{NetworkID: s.external, Tags: []string{"x", "fxccm-service=1"}})
	asked := s.AddFloatingIP(
		openstacktest.FloatingIP{NetworkID: s.external, Address: "203.0.113.77"})
	s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external})
	foreign := s.AddProject(openstacktest.Project{Name: "other"})
	s.AddFloatingIP(openstacktest.FloatingIP{
		NetworkID: s.external, ProjectID: foreign.ProjectID,
		Tags: []string{"fxccm-service=1"},
	})

	for name, c := range map[string]struct {
		query FloatingIPQuery
		want  []string
	}{
		"nothing":     {FloatingIPQuery{}, nil},
		"port":        {FloatingIPQuery{PortID: vip}, []string{onPort}},
		"tag":         {FloatingIPQuery{Tag: "fxccm-service=1"}, []string{tagged}},
		"part of tag": {FloatingIPQuery{Tag: "fxccm-service"}, nil},
		"address":     {FloatingIPQuery{Address: "203.0.113.77"}, []string{asked}},
		"pool":        {FloatingIPQuery{PoolTag: "fxccm-service=1"}, []string{tagged}},
		"id":          {FloatingIPQuery{ID: asked}, []string{asked}},
		"several":     {FloatingIPQuery{PortID: vip, Tag: "fxccm-service=1", Address: "203.0.113.77"}, []string{onPort, tagged, asked}},
	} {
		t.Run(name, func(t *testing.T) {
			s.ForgetCalls()
			found, err := s.FloatingIPsOf(t.Context(), c.query, time.Time{})
			s.must(err)
			got := slices.Sorted(slices.Values(ids(found)))
			if want := slices.Sorted(slices.Values(c.want)); !slices.Equal(got, want) {
				t.Errorf("found %v, want %v", got, want)
			}
			s.wantCalls(map[string]int{"floating_ip_list": 1})
		})
	}
	found, err := s.FloatingIPsOf(t.Context(), FloatingIPQuery{Tag: "fxccm-service=1"},
		time.Time{})
	s.must(err)
	want := FloatingIP{
		ID: tagged, Address: s.floatingIPNow(tagged).Address,
		NetworkID: s.external,
	}
	got := found[0]
	if !slices.Equal(got.Tags, []string{"x", "fxccm-service=1"}) {
		t.Errorf("tags %q", got.Tags)
	}
	if got.CreatedAt == "" || got.Revision == nil {
		t.Error("the time of the creation or the revision is missing")
	}
	got.Tags, got.CreatedAt, got.Revision = nil, "", nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
}

// IDs are random. A Service has the address of the first floating IP that points to its load
// balancer, and keeps that when another client adds a second one.
func TestFloatingIPsOf_Several_TheOldestIsTheFirst(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Now())
	s := newSite(t, openstacktest.WithClock(now))
	var want []string
	for _, id := range []string{
		"cccccccc-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002",
		"bbbbbbbb-0000-4000-8000-000000000003",
	} {
		want = append(want, s.AddFloatingIP(openstacktest.FloatingIP{
			ID: id, NetworkID: s.external, Tags: []string{"fxccm-service=1"},
		}))
		now.Step(time.Minute)
	}
	found, err := s.FloatingIPsOf(t.Context(), FloatingIPQuery{Tag: "fxccm-service=1"},
		time.Time{})
	s.must(err)
	if !slices.Equal(ids(found), want) {
		t.Errorf("found %v, want %v", ids(found), want)
	}
}

func TestFloatingIPs_200AtOnce_ShareAFewLists(t *testing.T) {
	s := newSite(t)
	s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external, Tags: []string{"mine"}})
	s.ForgetCalls()
	// All other calls come while the first list is in flight.
	s.Inject(
		openstacktest.Fault{Operation: "floating_ip_list", Times: 1, Delay: 300 * time.Millisecond})
	failed := atOnce(200, func(int) error {
		found, err := s.FloatingIPsOf(t.Context(), FloatingIPQuery{Tag: "mine"}, time.Time{})
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("found %v", found)
		}
		return err
	})
	if len(failed) > 0 {
		t.Fatal(failed[0])
	}
	if n := s.Counts()["floating_ip_list"]; n > 4 {
		t.Errorf("200 callers at once cost %d lists", n)
	}
}

func TestFloatingIPsOf_ListFromBeforeTheCallServes_IsOneList(t *testing.T) {
	s := newSite(t)
	s.Inject(
		openstacktest.Fault{Operation: "floating_ip_list", Times: 1, Delay: 300 * time.Millisecond})
	since := s.clock.Now().Add(-time.Second)
	failed := atOnce(20, func(i int) error {
		if i >= 10 {
			// The list is in flight.
			if _, err := s.WaitForCall(t.Context(), func(c openstacktest.Call) bool {
				return c.Operation == "floating_ip_list"
			}); err != nil {
				return err
			}
		}
		_, err := s.FloatingIPsOf(t.Context(), FloatingIPQuery{Tag: "mine"}, since)
		return err
	})
	if len(failed) > 0 {
		t.Fatal(failed[0])
	}
	s.wantCalls(map[string]int{"floating_ip_list": 1})
}

func TestCreateFloatingIP_IsMadeAndTagged_ByTwoRequests(t *testing.T) {
	s := newSite(t)
	vip := s.addPort("")
	s.ForgetCalls()
	wanted := WantedFloatingIP{
		NetworkID: s.external, Description: "what it is for",
		Tags: []string{"a", "b", "a"},
	}
	got, err := s.CreateFloatingIP(t.Context(), wanted, s.pool, vip)
	s.must(err)
	s.wantCalls(map[string]int{"floating_ip_create": 1, "floating_ip_tag_replace": 1})
	is := s.floatingIPNow(got.ID)
	if is.PortID != vip || is.Description != "what it is for" ||
		!slices.Equal(is.Tags, []string{"a", "b"}) || is.NetworkID != s.external {
		t.Errorf("the floating IP is %+v", is)
	}
	if got.Address != is.Address || got.PortID != vip || got.Address == "" {
		t.Errorf("the result is %+v", got)
	}
}

func TestCreateFloatingIP_ErrorsTellWhatToDo(t *testing.T) {
	small := func(s *site) string {
		return s.AddSubnet(openstacktest.Subnet{
			NetworkID: s.external, CIDR: "198.51.100.0/24", NoGateway: true,
			Pools: []openstacktest.AddressRange{{First: "198.51.100.5", Last: "198.51.100.5"}},
		})
	}
	for name, c := range map[string]struct {
		prepare func(*site) (subnet, address string)
		want    error
	}{
		"subnet without addresses": {func(s *site) (string, string) {
			subnet := small(s)
			s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external, SubnetID: subnet})
			return subnet, ""
		}, ErrNoAddress},
		"address of another": {func(s *site) (string, string) {
			s.AddFloatingIP(
				openstacktest.FloatingIP{NetworkID: s.external, Address: "203.0.113.50"})
			return "", "203.0.113.50"
		}, nil},
		"quota": {func(s *site) (string, string) {
			s.SetNetworkQuota("floatingip", 0)
			return "", ""
		}, nil},
		"unknown subnet": {func(*site) (string, string) { return "00000000-0000-4000-8000-00000000dead", "" }, ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, openstacktest.WithUserChosenAddresses())
			subnet, address := c.prepare(s)
			vip := s.addPort("")
			before := len(s.Cloud.FloatingIPs())
			made, err := s.CreateFloatingIP(t.Context(),
				WantedFloatingIP{NetworkID: s.external, Address: address}, subnet, vip)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || made.ID != "" {
				t.Errorf("made %+v, error %v, want %q", made, err, c.want)
			}
			for _, other := range []error{ErrNoAddress, ErrNotFound} {
				if other != c.want && errors.Is(err, other) {
					t.Errorf("the error is also %q", other)
				}
			}
			if n := len(s.Cloud.FloatingIPs()); n != before {
				t.Errorf("%d floating IPs were created", n-before)
			}
		})
	}
}

func TestCreateFloatingIP_NotTagged_IsReturnedWithTheError(t *testing.T) {
	s := newSite(t)
	s.Inject(openstacktest.Fault{Operation: "floating_ip_tag_replace", Status: 503})
	made, err := s.CreateFloatingIP(t.Context(),
		WantedFloatingIP{NetworkID: s.external, Tags: []string{"a"}}, "", s.addPort(""))
	if err == nil || made.ID == "" {
		t.Errorf("made %+v, error %v, want both", made, err)
	}
}

func TestTags_CloudWithoutTags_AreSkipped(t *testing.T) {
	s := newSite(t, openstacktest.WithoutExtensions("standard-attr-tag"))
	wanted := WantedFloatingIP{NetworkID: s.external, Tags: []string{"fxccm-service=a"}}
	for range 2 {
		_, err := s.CreateFloatingIP(t.Context(), wanted, "", s.addPort(""))
		s.must(err)
	}
	s.wantCalls(map[string]int{
		"floating_ip_create": 2, "floating_ip_tag_replace": 1,
		"network_extension_list": 1,
	})
	all, err := s.FloatingIPs(t.Context())
	s.must(err)
	if len(all) != 2 || all[0].Tags != nil {
		t.Errorf("tags %#v of a cloud without tags, want nil", all)
	}
}

// Some controllers of networks answer a request for tags and keep none, or always fail.
func TestTags_NotKeptOrRefused_ObjectsAreCreatedAndShownWithoutTags(t *testing.T) {
	const mark = "fxccm-service=a"
	for name, fault := range map[string]openstacktest.Fault{
		"null":      {Rewrite: forgetfully("null")},
		"no tags":   {Rewrite: forgetfully(`{"tags": []}`)},
		"an error":  {Status: 500},
		"forbidden": {Status: 403},
		"no such":   {Status: 405},
		"invalid":   {Status: 400},
		"a proxy":   {Status: 404, Body: "<html>"},
		"conflict":  {Status: 409},
		"too large": {Status: 413},
		"overload":  {Status: 503},
		"no answer": {Drop: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			fault.Operation = "*_tag_replace"
			s.Inject(fault)
			made, err := s.CreateFloatingIP(t.Context(),
				WantedFloatingIP{NetworkID: s.external, Tags: []string{mark}}, "", s.addPort(""))
			s.must(err)
			if len(made.Tags) > 0 {
				t.Errorf("the new floating IP has the tags %q", made.Tags)
			}
			group, err := s.CreateSecurityGroup(t.Context(),
				SecurityGroup{Name: "lb-sg", Tags: []string{mark}})
			s.must(err)
			s.must(s.TagSecurityGroup(t.Context(), group.ID, []string{"fxccm-service=b"}))
			counts := s.Counts()
			if n := counts["floating_ip_tag_replace"] +
				counts["security_group_tag_replace"]; n != 1 {
				t.Errorf("%d requests for tags, want one", n)
			}
			if err := s.TagFloatingIP(t.Context(), made.ID, []string{"users"}); err == nil {
				t.Error("the mark was not removed, and there is no error")
			}
			if fault.Rewrite != nil {
				return // the simulator has kept the tags
			}
			all, err := s.FloatingIPs(t.Context())
			s.must(err)
			if len(all) != 1 || all[0].Tags != nil {
				t.Errorf("the floating IPs are %+v, want one with nil tags", all)
			}
			s.RemoveFaults()
			s.clock.SetTime(s.clock.Now().Add(tagsAge))
			s.must(s.TagFloatingIP(t.Context(), made.ID, []string{mark}))
			if got := s.floatingIPNow(made.ID).Tags; !slices.Equal(got, []string{mark}) {
				t.Errorf("later the tags are %q", got)
			}
		})
	}
}

// Each Service meets the lack of tags, and again after tagsAge: the operator reads of it once.
func TestTags_CloudWithoutTags_IsLoggedOnce(t *testing.T) {
	without := openstacktest.WithoutExtensions("standard-attr-tag")
	for name, test := range map[string]struct {
		options []openstacktest.Option
		fault   *openstacktest.Fault
		cause   string
	}{
		"no extension": {
			options: []openstacktest.Option{without}, cause: "Neutron has no tags extension",
		},
		"null": {
			fault: &openstacktest.Fault{Rewrite: forgetfully("null")},
			cause: "Neutron has accepted tags and not kept them",
		},
		"an error": {fault: &openstacktest.Fault{Status: 500}, cause: "500"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, test.options...)
			if test.fault != nil {
				test.fault.Operation = "*_tag_replace"
				s.Inject(*test.fault)
			}
			var lines []string
			s.API.config.Logger = funcr.New(func(_, line string) { lines = append(lines, line) },
				funcr.Options{})
			id := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external})
			for range 3 {
				s.must(s.TagFloatingIP(t.Context(), id, []string{"fxccm-service=a"}))
				s.clock.SetTime(s.clock.Now().Add(tagsAge))
			}
			if n := s.Counts()["floating_ip_tag_replace"]; n != 3 {
				t.Errorf("%d requests for tags, want one in each %s", n, tagsAge)
			}
			if len(lines) != 1 || !strings.Contains(lines[0], "are not tagged") ||
				!strings.Contains(lines[0], test.cause) {
				t.Errorf("the log has %q, want one line with the cause", lines)
			}
		})
	}
}

func forgetfully(body string) func(openstacktest.Call, int, []byte) (int, []byte) {
	return func(openstacktest.Call, int, []byte) (int, []byte) { return 200, []byte(body) }
}

func TestTags_ExtensionsCannotBeRead_IsAnError(t *testing.T) {
	s := newSite(t, openstacktest.WithoutExtensions("standard-attr-tag"))
	s.Inject(openstacktest.Fault{Operation: "network_extension_list", Status: 503})
	id := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external})
	if err := s.TagFloatingIP(t.Context(), id, []string{"a"}); !errors.Is(err,
		capability.ErrUnknown) {
		t.Errorf("error %v, want one about the unknown extensions", err)
	}
}

func TestTagFloatingIP_ReplacesAll(t *testing.T) {
	s := newSite(t)
	id := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external, Tags: []string{"old"}})
	s.must(s.TagFloatingIP(t.Context(), id, []string{"new", "other"}))
	if got := s.floatingIPNow(id).Tags; !slices.Equal(got, []string{"new", "other"}) {
		t.Errorf("tags %q", got)
	}
	s.must(s.TagFloatingIP(t.Context(), id, nil))
	if got := s.floatingIPNow(id).Tags; len(got) != 0 {
		t.Errorf("tags %q, want none", got)
	}
	if err := s.TagFloatingIP(t.Context(), "gone", []string{"a"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v for a deleted floating IP", err)
	}
}

func TestAttachFloatingIP_AttachedElsewhere_IsRefused(t *testing.T) {
	s := newSite(t)
	mine, others := s.addPort(""), s.addPort("")
	id := s.AddFloatingIP(openstacktest.FloatingIP{
		NetworkID: s.external, Tags: []string{"front"},
	})
	for range 2 { // the second call changes nothing
		got, err := s.AttachFloatingIP(t.Context(), id, mine, false, nil)
		if err != nil || got.PortID != mine || !slices.Contains(got.Tags, "front") {
			t.Errorf("the attached floating IP is %+v, error %v", got, err)
		}
	}
	if got := s.floatingIPNow(id).PortID; got != mine {
		t.Errorf("the floating IP points to %q", got)
	}
	if n := s.Counts()["floating_ip_update"]; n != 1 {
		t.Errorf("%d writes", n)
	}
	_, err := s.AttachFloatingIP(t.Context(), id, others, false, nil)
	if !errors.Is(err, ErrTaken) {
		t.Errorf("the attachment of a floating IP in use has the error %v", err)
	}
	if got := s.floatingIPNow(id).PortID; got != mine {
		t.Errorf("the floating IP was moved to %q", got)
	}
	_, err = s.AttachFloatingIP(t.Context(), "gone", mine, false, nil)
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v for a deleted floating IP", err)
	}
}

func TestAttachFloatingIP_ItsDescriptionIsReleased_OneRequestDoesBoth(t *testing.T) {
	s := newSite(t)
	mine := s.addPort("")
	id := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external, Description: "mark"})
	got, err := s.AttachFloatingIP(t.Context(), id, mine, true, nil)
	if err != nil || got.PortID != mine || got.Description != "" {
		t.Errorf("the attached floating IP is %+v, error %v", got, err)
	}
	if now := s.floatingIPNow(id); now.PortID != mine || now.Description != "" {
		t.Errorf("the floating IP is %+v, want an attached one without a description", now)
	}
	if n := s.Counts()["floating_ip_update"]; n != 1 {
		t.Errorf("%d writes", n)
	}
}

func TestAttachFloatingIP_AttachedByAnotherMeanwhile_IsLeftThere(t *testing.T) {
	var s *site
	var others, id string
	taken := false
	s = newSite(t, openstacktest.WithObserver(func(c openstacktest.Call) {
		if c.Operation == "floating_ip_get" && !taken {
			taken = true
			if err := s.UpdateFloatingIP(id,
				func(f *openstacktest.FloatingIP) { f.PortID = others }); err != nil {
				t.Error(err)
			}
		}
	}))
	mine := s.addPort("")
	others = s.addPort("")
	id = s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external})
	if _, err := s.AttachFloatingIP(t.Context(), id, mine, false, nil); !errors.Is(err, ErrTaken) {
		t.Errorf("the attachment of a floating IP in use has the error %v", err)
	}
	if got := s.floatingIPNow(id).PortID; got != others {
		t.Errorf("the floating IP points to %q, want %q, the first", got, others)
	}
}

func TestDetachFloatingIP_Attached_SendsANullPort(t *testing.T) {
	s := newSite(t)
	id := s.AddFloatingIP(openstacktest.FloatingIP{
		NetworkID: s.external, PortID: s.addPort(""), Description: "mark",
	})
	s.must(s.DetachFloatingIP(t.Context(), id, false, nil, nil))
	if now := s.floatingIPNow(id); now.PortID != "" || now.Description != "mark" {
		t.Errorf("the floating IP is %+v", now)
	}
	s.must(s.DetachFloatingIP(t.Context(), id, true, nil, nil))
	if now := s.floatingIPNow(id); now.PortID != "" || now.Description != "" {
		t.Errorf("after its release the floating IP is %+v", now)
	}
	calls := s.Calls()
	if body := calls[len(calls)-1].Body; !strings.Contains(body, `"port_id":null`) {
		t.Errorf("sent %s, want a null port", body)
	}
	s.must(s.DetachFloatingIP(t.Context(), "gone", true, nil, nil))
}

func TestDetachFloatingIP_MarkedByAnotherMeanwhile_StaysAsItIs(t *testing.T) {
	s := newSite(t)
	port := s.addPort("")
	id := s.AddFloatingIP(openstacktest.FloatingIP{
		NetworkID: s.external, PortID: port, Description: "mark",
	})
	listed, err := s.FloatingIPs(t.Context())
	s.must(err)
	s.must(s.TagFloatingIP(t.Context(), id, []string{"another's"}))
	revision := listed[0].Revision
	owned := func(now FloatingIP) bool { return !slices.Contains(now.Tags, "another's") }
	for what, err := range map[string]error{
		"detach":   s.DetachFloatingIP(t.Context(), id, true, revision, owned),
		"describe": s.ClearFloatingIPDescription(t.Context(), id, revision, owned),
		"check":    s.CheckFloatingIP(t.Context(), id, owned),
	} {
		if !errors.Is(err, ErrTaken) {
			t.Errorf("%s: error %v, want ErrTaken", what, err)
		}
	}
	if now := s.floatingIPNow(id); now.PortID != port || now.Description != "mark" {
		t.Errorf("the floating IP is %+v", now)
	}

	s.must(s.TagFloatingIP(t.Context(), id, nil))
	s.ForgetCalls()
	s.must(s.DetachFloatingIP(t.Context(), id, true, revision, owned))
	s.wantCalls(map[string]int{"floating_ip_update": 2, "floating_ip_get": 1})
	if now := s.floatingIPNow(id); now.PortID != "" || now.Description != "" {
		t.Errorf("the floating IP is %+v, want it detached", now)
	}
}

func TestDeleteFloatingIP_ChangedByAnotherMeanwhile_Stays(t *testing.T) {
	s := newSite(t)
	id := s.AddFloatingIP(openstacktest.FloatingIP{
		NetworkID: s.external, Tags: []string{"another's"},
	})
	var seen FloatingIP
	is := func(owned bool) func(FloatingIP) bool {
		return func(f FloatingIP) bool {
			seen = f
			return owned
		}
	}
	err := s.API.DeleteFloatingIP(t.Context(), id, nil, is(false))
	if err == nil || len(s.Cloud.FloatingIPs()) != 1 || !slices.Contains(seen.Tags, "another's") {
		t.Errorf("error %v, %d floating IPs remain, seen %+v", err, len(s.Cloud.FloatingIPs()),
			seen)
	}
	s.must(s.API.DeleteFloatingIP(t.Context(), id, nil, is(true)))
	s.must(s.API.DeleteFloatingIP(t.Context(), id, nil, is(true))) // it is gone
	if n := len(s.Cloud.FloatingIPs()); n != 0 {
		t.Errorf("%d remain", n)
	}
}

// The list shows the revision, so the deletion needs no other read unless there is a newer one.
func TestDeleteFloatingIP_ListedRevision_IsReadAgainOnlyIfItIsOld(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*openstacktest.FloatingIP)
		// tags replace those of the floating IP, if any.
		tags    []string
		deleted bool
		calls   map[string]int
	}{
		"unchanged": {deleted: true, calls: map[string]int{"floating_ip_delete": 1}},
		"detached": {
			change: func(f *openstacktest.FloatingIP) { f.PortID = "" }, deleted: true,
			calls: map[string]int{"floating_ip_delete": 2, "floating_ip_get": 1},
		},
		"described": {
			change: func(f *openstacktest.FloatingIP) { f.Description = "reserved" },
			calls:  map[string]int{"floating_ip_delete": 1, "floating_ip_get": 1},
		},
		"tagged": {
			tags:  []string{"reserved"},
			calls: map[string]int{"floating_ip_delete": 1, "floating_ip_get": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			id := s.AddFloatingIP(openstacktest.FloatingIP{
				NetworkID: s.external, PortID: s.addPort(""),
			})
			listed, err := s.FloatingIPs(t.Context())
			s.must(err)
			if test.change != nil {
				s.must(s.UpdateFloatingIP(id, test.change))
			}
			if test.tags != nil {
				s.must(s.TagFloatingIP(t.Context(), id, test.tags))
			}
			s.ForgetCalls()
			err = s.API.DeleteFloatingIP(t.Context(), id, listed[0].Revision,
				func(now FloatingIP) bool { return now.Description == "" && len(now.Tags) == 0 })
			if isTaken := errors.Is(err, ErrTaken); isTaken == test.deleted ||
				err != nil && !isTaken {
				t.Errorf("error %v", err)
			}
			if gone := len(s.Cloud.FloatingIPs()) == 0; gone != test.deleted {
				t.Errorf("deleted: %t, want %t", gone, test.deleted)
			}
			s.wantCalls(test.calls)
		})
	}
}

// A floating IP that changes after each read is not deleted.
func TestDeleteFloatingIP_ChangesBetweenReadAndDeletion_IsReadAgain(t *testing.T) {
	var s *site
	var id string
	description := "reserved"
	s = newSite(t, openstacktest.WithObserver(func(c openstacktest.Call) {
		if c.Operation == "floating_ip_get" && description != "" {
			if err := s.UpdateFloatingIP(id, func(f *openstacktest.FloatingIP) {
				f.Description, description = description, ""
			}); err != nil {
				t.Error(err)
			}
		}
	}))
	id = s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external})
	err := s.API.DeleteFloatingIP(t.Context(), id, nil,
		func(now FloatingIP) bool { return now.Description == "" })
	if !errors.Is(err, ErrTaken) || len(s.Cloud.FloatingIPs()) != 1 {
		t.Errorf("error %v, %d floating IPs remain", err, len(s.Cloud.FloatingIPs()))
	}
}

func TestDeleteFloatingIP_CloudWithoutRevisions_IsReadBefore(t *testing.T) {
	s := newSite(t, openstacktest.WithoutExtensions("standard-attr-revisions"))
	id := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external})
	listed, err := s.FloatingIPs(t.Context())
	s.must(err)
	if listed[0].Revision != nil {
		t.Fatalf("the list shows revision %d", *listed[0].Revision)
	}
	s.ForgetCalls()
	s.must(s.API.DeleteFloatingIP(t.Context(), id, listed[0].Revision,
		func(FloatingIP) bool { return true }))
	s.wantCalls(map[string]int{"floating_ip_get": 1, "floating_ip_delete": 1})
}

func TestDeleteFloatingIP_OneThatIsGone_IsDone(t *testing.T) {
	s := newSite(t)
	id := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external, PortID: s.addPort("")})
	for range 2 {
		s.must(s.DeleteFloatingIP(t.Context(), id))
	}
	if n := len(s.Cloud.FloatingIPs()); n != 0 {
		t.Errorf("%d remain", n)
	}
	s.Inject(openstacktest.Fault{Operation: "floating_ip_delete", Status: http.StatusConflict})
	if err := s.DeleteFloatingIP(t.Context(), id); err == nil {
		t.Error("a refusal counted as success")
	}
}
