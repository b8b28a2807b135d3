package failure

import "net/http"

// LoginError explains why Keystone issued no token. It contains no secret and no URL.
//
// It unwraps to the cause, such as a network error, but never to gophercloud's error for a status:
// Keystone's 404 must not count as the 404 of a server.
type LoginError struct {
	// User describes the user.
	User string
	// Status is the status of Keystone's response; 0 without a response.
	Status int
	// Message is Keystone's message, or describes its response.
	Message string
	// Err is why there was no response; nil if there was one.
	Err error
}

// Error implements error.
func (e *LoginError) Error() string {
	like := Error{Service: "Keystone", Status: e.Status, Message: e.Message}
	return like.Cause() + " (" + e.User + ")"
}

// Unwrap returns Err.
func (e *LoginError) Unwrap() error { return e.Err }

// Refused reports whether Keystone refused the login, so that a retry does not help.
func (e *LoginError) Refused() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests &&
		e.Status != http.StatusRequestTimeout
}

// CatalogError means that the token has no project, or that Keystone's catalog has no address of a
// service for the configuration.
type CatalogError struct {
	// Service is the name of the service.
	Service string
	// Setting is the option of cloud.conf that does not fit the catalog; "" if the catalog lacks
	// the service.
	Setting string
	// Message says what is wrong, and what to do.
	Message string
}

// Error implements error.
func (e *CatalogError) Error() string { return e.Service + ": " + e.Message }
