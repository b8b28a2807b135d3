package fake

import "time"

// A Script chooses calls and then says what becomes of them. It is made by [Cloud.On] and reads as a
// sentence:
//
//	cloud.On(fake.EnsureLoadBalancer).For("default/web").Times(2).Fail(err)
//	release := cloud.On(fake.InstanceMetadata).IgnoringContext().Hang()
//
// Delay, Hang, Fail, Panic and ReturnZero end the sentence and put it into force. They return a function that takes it back,
// and lets calls go on that hang in it; it may be called more than once. The other methods return a
// changed copy.
//
// For a combination say several sentences: a call goes through all that fit it, in order, until one
// of them ends it. A sentence that makes no sense, such as Times(-1), panics with the reason.
type Script struct {
	cloud *Cloud
	fault Fault
}

// On begins a script for calls of any of the methods, or of all methods if none is given.
func (c *Cloud) On(methods ...Method) Script { return Script{cloud: c, fault: Fault{Methods: methods}} }

// For chooses calls about the object only; see [Call].Object.
func (s Script) For(object string) Script {
	s.fault.Object = object
	return s
}

// By chooses calls of the caller only; see [WithCaller].
func (s Script) By(caller string) Script {
	s.fault.Caller = caller
	return s
}

// Times chooses the next n calls only; without it the script holds until it is taken back.
func (s Script) Times(n int) Script {
	if n < 1 {
		panic("fake: a script for less than one call")
	}
	s.fault.Times = n
	return s
}

// IgnoringContext makes the chosen calls deaf to their context, as a provider is that does not pass
// it on.
func (s Script) IgnoringContext() Script {
	s.fault.IgnoreContext = true
	return s
}

// AfterEffect lets the chosen calls do their work first: what is said next happens when the cloud has
// changed and the caller does not know yet.
func (s Script) AfterEffect() Script {
	s.fault.AfterEffect = true
	return s
}

// Delay makes the calls take d longer. They do end early with their context.
func (s Script) Delay(d time.Duration) (takeBack func()) {
	s.fault.Delay = d
	return s.enact()
}

// Hang makes the calls wait until release is called, or [Cloud.ClearFaults], or their context ends. After
// a release they go on as if nothing had been.
func (s Script) Hang() (release func()) {
	s.fault.Hang = true
	return s.enact()
}

// Fail makes the calls return err, as it is.
func (s Script) Fail(err error) (takeBack func()) {
	s.fault.Err = err
	return s.enact()
}

// Panic makes the calls panic with v.
func (s Script) Panic(v any) (takeBack func()) {
	s.fault.Panic = v
	return s.enact()
}

// ReturnZero makes the calls return their zero results without an error: (nil, nil) for
// InstanceMetadata and EnsureLoadBalancer.
func (s Script) ReturnZero() (takeBack func()) {
	s.fault.ReturnZero = true
	return s.enact()
}

func (s Script) enact() func() {
	id, err := s.cloud.Inject(s.fault)
	if err != nil {
		panic("fake: " + err.Error())
	}
	return func() { s.cloud.faults.remove(id) }
}
