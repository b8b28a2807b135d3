package fake

import "time"

// A FaultBuilder chooses calls and then says how they misbehave. [Cloud.On] returns one:
//
//	cloud.On(fake.EnsureLoadBalancer).For("default/web").Times(2).Fail(err)
//	release := cloud.On(fake.InstanceMetadata).IgnoringContext().Hang()
//
// Delay, Hang, Fail, Panic and ReturnZero inject the fault. They return a function that clears the
// fault and releases the calls that hang in it; it may be called more than once. The other methods
// return a changed copy.
//
// For a combination inject several faults: a call goes through all that match it, in order, until
// one of them ends the call. A fault that makes no sense, such as Times(-1), panics with the
// reason.
type FaultBuilder struct {
	cloud *Cloud
	fault Fault
}

// On begins a fault for calls of any of the methods, or of all methods if none is given.
func (c *Cloud) On(methods ...Method) FaultBuilder {
	return FaultBuilder{cloud: c, fault: Fault{Methods: methods}}
}

// For matches calls about the object only; see [Call].Object.
func (b FaultBuilder) For(object string) FaultBuilder {
	b.fault.Object = object
	return b
}

// By matches calls of the caller only; see [WithCaller].
func (b FaultBuilder) By(caller string) FaultBuilder {
	b.fault.Caller = caller
	return b
}

// Times matches the next n calls only; without it the fault lasts until it is cleared.
func (b FaultBuilder) Times(n int) FaultBuilder {
	if n < 1 {
		panic("fake: a fault for less than one call")
	}
	b.fault.Times = n
	return b
}

// IgnoringContext makes the matching calls ignore their context, like a provider that does not pass
// it on.
func (b FaultBuilder) IgnoringContext() FaultBuilder {
	b.fault.IgnoreContext = true
	return b
}

// AfterEffect lets the matching calls do their work first: the fault happens when the cloud has
// changed and the caller does not know yet.
func (b FaultBuilder) AfterEffect() FaultBuilder {
	b.fault.AfterEffect = true
	return b
}

// Delay makes the calls take d longer. They end early when their context ends.
func (b FaultBuilder) Delay(d time.Duration) (clearFault func()) {
	b.fault.Delay = d
	return b.inject()
}

// Hang makes the calls wait until release or [Cloud.ClearFaults] is called, or until their context
// ends. After a release they continue normally.
func (b FaultBuilder) Hang() (release func()) {
	b.fault.Hang = true
	return b.inject()
}

// Fail makes the calls return err unchanged.
func (b FaultBuilder) Fail(err error) (clearFault func()) {
	b.fault.Err = err
	return b.inject()
}

// Panic makes the calls panic with value.
func (b FaultBuilder) Panic(value any) (clearFault func()) {
	b.fault.Panic = value
	return b.inject()
}

// ReturnZero makes the calls return their zero results without an error: (nil, nil) for
// InstanceMetadata and EnsureLoadBalancer.
func (b FaultBuilder) ReturnZero() (clearFault func()) {
	b.fault.ReturnZero = true
	return b.inject()
}

func (b FaultBuilder) inject() func() {
	id, err := b.cloud.Inject(b.fault)
	if err != nil {
		panic("fake: " + err.Error())
	}
	return func() { b.cloud.faults.remove(id) }
}
