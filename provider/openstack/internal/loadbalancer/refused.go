package loadbalancer

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// refused returns the error that people see: a notice if the cloud refuses a setting, a quota is
// exceeded or a policy denies the request, else a short text.
func (r *reconciler) refused(err error) error {
	var notice *events.Notice
	if isWait(err) || errors.As(err, &notice) {
		return err
	}
	f := failure.Of(err)
	var at *plan.StepError
	if f != nil && errors.As(err, &at) {
		notice = r.refusedStep(f, at.Step)
	}
	if notice == nil && f != nil && f.IsForbidden() {
		notice = events.Forbidden.Notice(f.Cause(), cmp.Or(f.Operation, "the request"))
	}
	if notice == nil {
		return events.Explain(err)
	}
	r.notes.notify(aboutRefusal, *notice)
	return notice
}

// refusedStep returns the notice about the setting or the quota that a step fails for; nil for
// none.
func (r *reconciler) refusedStep(f *failure.Error, at plan.Step) *events.Notice {
	counted, setting := plan.QuotaOf(at), r.settingOf(f, at)
	_, ofFloatingIP := at.(plan.CreateFloatingIP)
	address := r.settings.Address
	switch {
	case f.IsQuota():
		return events.QuotaUsedUp.Notice(f.Cause(),
			cmp.Or(f.Exceeded(), counted, "these objects"))
	case ofFloatingIP && address != "" && setting == settings.AddressSource(r.service, address):
		cause := f.Cause()
		if f.IsForbidden() {
			// The policy's text is about a field of the request.
			cause = "Neutron: 403 the project must not choose the address of a new floating IP"
		}
		return events.AddressRefused.Notice(cause, setting+" "+address)
	case f.IsNoAddress():
		place := "the network of the load balancer"
		if ofFloatingIP {
			place = "the external network"
		}
		return events.AddressesUsedUp.Notice(f.Cause(), cmp.Or(setting, place))
	case f.Type == failure.NoExternalGateway:
		// The message has the network of a new floating IP, which the subnet may have chosen.
		return events.NetworkUnreachable.Notice(f.Cause(), cmp.Or(plan.NetworkOf(at), setting,
			r.settingWith(r.settings.FloatingSubnetID),
			"the first external network, because none is configured"))
	case setting != "":
		return events.ValueRefused.Notice(f.Cause(), setting)
	case f.IsNotFound() && r.mentionsPort(f.Message):
		return events.PortMissing.Notice(f.Cause(), "the port of the load balancer")
	}
	return nil
}

// mentionsPort reports whether a message is about the port of the load balancer.
func (r *reconciler) mentionsPort(message string) bool {
	lb := r.found.balancer
	return lb != nil && lb.VIP.PortID != "" && mentions(message, lb.VIP.PortID)
}

// settingOf returns the setting that the service's message is about, by its value or by the field
// of the request; "" for none. Only what the step's request contains counts.
func (r *reconciler) settingOf(f *failure.Error, step plan.Step) string {
	chosen, message := plan.ChosenIn(step), f.Refusal()
	return r.firstSetting(func(each settings.Refusable) bool {
		return slices.Contains(chosen, each.Value) && (mentions(message, each.Value) ||
			each.Words != "" && mentions(message, each.Words))
	})
}

// settingWith returns the setting with a value; "" for none.
func (r *reconciler) settingWith(value string) string {
	return r.firstSetting(func(each settings.Refusable) bool { return each.Value == value })
}

// firstSetting returns the first setting with a value that fits, the requested addresses before all
// others.
func (r *reconciler) firstSetting(fits func(settings.Refusable) bool) string {
	for _, each := range []settings.Refusable{
		{Value: r.settings.Address, Words: "floating_ip_address"},
		{Value: r.settings.AdditionalAddress},
	} {
		if each.Value != "" && fits(each) {
			return settings.AddressSource(r.service, each.Value)
		}
	}
	for _, each := range r.settings.Refusable() {
		if each.Value != "" && fits(each) {
			return r.nameOf(each.Option)
		}
	}
	return ""
}

// mentions reports whether a message contains the value as a word.
func mentions(message, value string) bool {
	inWord := func(c rune) bool {
		return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' ||
			c >= 'A' && c <= 'Z'
	}
	for rest := message; ; {
		before, after, found := strings.Cut(rest, value)
		if !found {
			return false
		}
		left, right := []rune(before), []rune(after)
		if (len(left) == 0 || !inWord(left[len(left)-1])) &&
			(len(right) == 0 || !inWord(right[0])) {
			return true
		}
		rest = after
	}
}

// nameOf is the name of a setting for people.
func (r *reconciler) nameOf(option string) string {
	annotation := settings.Prefix + option
	if r.service.Annotations[annotation] != "" {
		return "annotation " + annotation
	}
	name := r.service.Annotations[settings.Prefix+"class"]
	class, conf := r.of.config.Defaults.Classes[name], r.of.config.Defaults.LoadBalancer
	ofClass := map[string]string{
		"network-id": class.NetworkID, "subnet-id": class.SubnetID,
		"member-subnet-id":    class.MemberSubnetID,
		"member-target":       class.MemberTarget,
		"floating-network-id": class.FloatingNetworkID,
		"floating-subnet-id":  class.FloatingSubnetID,
	}
	if ofClass[option] != "" {
		return fmt.Sprintf("option %s of [LoadBalancerClass %q] in cloud.conf", option, name)
	}
	switch {
	case option == "health-monitor-delay":
		option = "monitor-delay"
	case option == "member-subnet-id" && conf.MemberSubnetID == "":
		option = "subnet-id" // members are there if no other option says where
	}
	return "option " + option + " of cloud.conf"
}

// isRecreatedTooSoon reports whether a load balancer that Octavia has set to ERROR is younger than
// a minute, or than the time that the Service had not been served at its creation: so each one
// lasts twice as long as the previous one. The first one after a change of the Service does not
// count.
func (r *reconciler) isRecreatedTooSoon(todo plan.Plan) bool {
	lb := r.found.balancer
	if lb == nil || lb.Status != octavia.InError ||
		!slices.ContainsFunc(todo.Steps, plan.DeletesLoadBalancer) {
		return false
	}
	before := r.state.failed
	r.state.failed = r.service
	if before != nil && !r.requestsSame(before) {
		return false
	}
	age := r.of.config.Clock.Since(lb.CreatedAt)
	return age < min(max(r.notReadyFor()-age, minRefusalRecheck), maxRefusalRecheck)
}

// requestsSame reports whether an earlier state of the Service requests the same load balancer.
func (r *reconciler) requestsSame(before *v1.Service) bool {
	had, _ := settings.Of(before, r.of.config.Defaults)
	has, _ := settings.Of(r.service, r.of.config.Defaults)
	had.LoadBalancerID, has.LoadBalancerID = "", "" // fxccm writes it
	return reflect.DeepEqual(had, has) && equality.Semantic.DeepEqual(before.Spec, r.service.Spec)
}

// refuseRecreation tells that load balancers fail at their creation. Octavia gives no cause. It
// does not check the subnet of members before it begins.
func (r *reconciler) refuseRecreation() error {
	setting, s := "the members' subnet", r.settings
	member := cmp.Or(s.MemberSubnetID, s.DefaultMemberSubnetID)
	switch {
	case member != "" && member != s.SubnetID:
		setting = r.nameOf("member-subnet-id")
	case s.SubnetID != "":
		setting = r.nameOf("subnet-id")
	}
	return r.notes.refuse(aboutRefusal, events.CreationFails.Notice(
		"Octavia: new load balancers of the Service end in ERROR", setting))
}
