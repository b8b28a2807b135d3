// Package instances tells what Nova and Neutron know of the servers that are nodes: whether they exist, whether they run, and
// their addresses, type and place.
//
// Upstream's controllers ask for one node at a time, and for a thousand of them within seconds. What they ask together is answered
// together: by a few direct requests, or by one list of the servers and one of the ports ([lookups]).
//
// A node is deleted when its instance is said to be absent. So that is said late: after Nova itself has denied the server twice,
// some time apart ([absences]), and never if a large part of all instances has vanished at once ([Instances.vanished]).
package instances
