package neutron

// quotaOf is how many of a resource each project may have; below 0: any number.
func (n *Service) quotaOf(resource string) int {
	if limit, limited := n.quotas[resource]; limited {
		return limit
	}
	return -1
}
