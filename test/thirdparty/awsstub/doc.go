// Package awsstub is a stand-in on loopback for the parts of the AWS API that the AWS cloud
// provider needs for nodes and classic load balancers: the query protocol, in which a request is a
// form and the answer XML. It holds state, records every request with the access key that signed it
// (so that a test can tell terms apart), and can hold requests.
//
// Only what the provider asks for is there. A request for anything else is answered with an error,
// and shows in [Cloud.Unknown].
package awsstub
