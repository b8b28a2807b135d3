package openstacktest

// failure is an error in the form of the service.
func failure(service string, status int, message string) answer {
	return answer{status: status, body: object{"error": object{"code": status, "message": message}}}
}
