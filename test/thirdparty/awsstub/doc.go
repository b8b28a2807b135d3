// Package awsstub serves the part of the AWS API that the AWS cloud provider needs for nodes and
// classic load balancers. In its query protocol a request is a form, and the answer is XML. The
// stub has state, can hold requests, and records each request with the access key that signed it,
// so that a test can tell the terms apart.
//
// The stub answers other requests with an error and lists them in [Cloud.Unknown].
package awsstub
