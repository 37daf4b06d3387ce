package world

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Keys of each object; those of the second list are optional.
var (
	tableKeys    = keys{required: []string{"version", "status", "server_list"}, optional: []string{"server_count", "super_pod_list"}}
	serverKeys   = keys{required: []string{"server_id", "device"}, optional: []string{"host_ip", "container_ip", "hardware_type"}}
	deviceKeys   = keys{required: []string{"device_id", "rank_id"}, optional: []string{"device_ip", "device_port", "host_port", "super_device_id", "backup_device_ip", "backup_device_port"}}
	podKeys      = keys{required: []string{"super_pod_id", "server_list"}}
	memberKeys   = keys{required: []string{"server_id"}}
	superPodOnly = []string{"super_device_id", "backup_device_ip", "backup_device_port"}
)

type keys struct{ required, optional []string }

const maxServerID = 64

// tableReader converts elements to a RankTable and keeps the first fault.
type tableReader struct {
	document
	err   error
	table *RankTable
	ranks map[int]*element // maps a rank_id to its element
}

func parseRankTable(path string, data []byte) (*RankTable, error) {
	r := &tableReader{document: document{path: path, data: data}, ranks: map[int]*element{}}
	root, err := r.parse()
	if err != nil {
		return nil, err
	}
	r.table = &RankTable{Path: path}
	r.read(root)
	if r.err != nil {
		return nil, r.err
	}
	return r.table, nil
}

func (r *tableReader) refuse(e *element, format string, args ...any) {
	if r.err == nil {
		r.err = r.fault(e.at, e.field, fmt.Sprintf(format, args...))
	}
}

func (r *tableReader) read(root *element) {
	if root.object == nil {
		r.refuse(root, "%s where the table's object is due", root.kind())
		return
	}
	// Recognise other kinds of tables before their keys are refused as unknown.
	if e := root.object["group_list"]; e != nil {
		r.refuse(e, "this is the older template with groups and instances; write the table with server_list")
		return
	}
	version := root.object["version"]
	if version == nil {
		r.refuse(root, "version is missing")
		return
	}
	switch r.table.Version = r.text(version); r.table.Version {
	case "1.0", "1.2":
	default:
		r.refuse(version, "version %q; 1.0 and 1.2 are read", r.table.Version)
	}
	// A table that is still being filled has empty lists, so nothing else is checked.
	if e := root.object["status"]; e != nil && r.err == nil {
		switch status := r.text(e); status {
		case "completed":
		case "initializing":
			if r.err == nil {
				fault := r.fault(e.at, e.field, "status is \"initializing\"")
				fault.Err = ErrTableInitializing
				r.err = fault
			}
		default:
			r.refuse(e, "status %q; it is \"completed\" or \"initializing\"", status)
		}
	}
	r.check(root, tableKeys)
	servers := r.items(root, "server_list")
	if e := root.object["server_count"]; e != nil && r.err == nil {
		if n := r.number(e); n != len(servers) {
			r.refuse(e, "%d servers are announced, %d are listed", n, len(servers))
		}
	}
	if len(servers) == 0 && r.err == nil {
		r.refuse(root.object["server_list"], "the list is empty")
	}
	for _, e := range servers {
		r.server(e)
	}
	r.several(servers)
	if e := root.object["super_pod_list"]; e != nil && r.err == nil {
		r.superPods(e)
	}
	r.order(root)
}

func (r *tableReader) server(e *element) {
	r.check(e, serverKeys)
	if r.err != nil {
		return
	}
	s := RankServer{ID: r.text(e.object["server_id"])}
	switch {
	case s.ID == "":
		r.refuse(e.object["server_id"], "empty")
	case len(s.ID) > maxServerID:
		r.refuse(e.object["server_id"], "%d bytes; at most %d", len(s.ID), maxServerID)
	case r.table.server(s.ID) != nil:
		r.refuse(e.object["server_id"], "server %q is listed twice", s.ID)
	}
	s.HostIP = r.address(e.object["host_ip"])
	s.ContainerIP = r.address(e.object["container_ip"])
	s.Hardware = r.optional(e, "hardware_type")
	list := r.items(e, "device")
	if len(list) == 0 {
		r.refuse(e.object["device"], "server %q has no devices", s.ID)
	}
	for _, e := range list {
		d := r.device(e)
		if r.err != nil {
			return
		}
		if i := slices.IndexFunc(s.Devices, func(o RankDevice) bool { return o.ID == d.ID }); i >= 0 {
			r.refuse(e.object["device_id"], "device %d of server %q has rank %d already", d.ID, s.ID, s.Devices[i].Rank)
		}
		s.Devices = append(s.Devices, d)
	}
	slices.SortFunc(s.Devices, func(a, b RankDevice) int { return a.Rank - b.Rank })
	r.table.Servers = append(r.table.Servers, s)
}

func (r *tableReader) device(e *element) RankDevice {
	r.check(e, deviceKeys)
	if r.err != nil {
		return RankDevice{}
	}
	if r.table.Version == "1.0" {
		for _, key := range superPodOnly {
			if e.object[key] != nil {
				r.refuse(e.object[key], "belongs to version 1.2; this table has version 1.0")
			}
		}
	}
	d := RankDevice{
		ID:            r.number(e.object["device_id"]),
		Rank:          r.number(e.object["rank_id"]),
		IP:            r.addresses(e.object["device_ip"]),
		Port:          r.port(e.object["device_port"]),
		HostPort:      r.port(e.object["host_port"]),
		SuperDeviceID: r.optional(e, "super_device_id"),
		BackupIP:      r.addresses(e.object["backup_device_ip"]),
		BackupPort:    r.port(e.object["backup_device_port"]),
	}
	if id := e.object["super_device_id"]; id != nil && d.SuperDeviceID == "" {
		r.refuse(id, "empty; leave the key out on servers that are not in a super-pod")
	}
	if earlier := r.ranks[d.Rank]; earlier != nil {
		r.refuse(e.object["rank_id"], "rank %d is %s already", d.Rank, earlier.field)
	}
	r.ranks[d.Rank] = e.object["rank_id"]
	return d
}

// several checks what is required only of tables with more than one server.
func (r *tableReader) several(servers []*element) {
	if len(servers) < 2 || r.err != nil {
		return
	}
	for _, s := range servers {
		for _, d := range s.object["device"].list {
			if d.object["device_ip"] == nil {
				r.refuse(d, "device_ip is missing; a table of several servers needs it on each device (see /etc/hccn.conf)")
				return
			}
		}
	}
}

func (r *tableReader) superPods(e *element) {
	if r.table.Version != "1.2" {
		r.refuse(e, "belongs to version 1.2; this table has version %s", r.table.Version)
		return
	}
	for _, s := range r.table.Servers {
		for _, d := range s.Devices {
			if d.SuperDeviceID == "" {
				r.refuse(r.ranks[d.Rank], "rank %d has no super_device_id, and the table has super-pods", d.Rank)
				return
			}
		}
	}
	in := map[string]string{}
	for _, e := range r.elements(e) {
		r.check(e, podKeys)
		if r.err != nil {
			return
		}
		pod := SuperPod{ID: r.text(e.object["super_pod_id"])}
		for _, e := range r.items(e, "server_list") {
			r.check(e, memberKeys)
			if r.err != nil {
				return
			}
			e = e.object["server_id"]
			id := r.text(e)
			if r.table.server(id) == nil {
				r.refuse(e, "server %q is not in server_list", id)
			} else if other, ok := in[id]; ok {
				r.refuse(e, "server %q is in super-pod %q already", id, other)
			}
			in[id] = pod.ID
			pod.Servers = append(pod.Servers, id)
		}
		r.table.SuperPods = append(r.table.SuperPods, pod)
	}
	for _, s := range r.table.Servers {
		if _, ok := in[s.ID]; !ok {
			r.refuse(e, "server %q is in no super-pod", s.ID)
		}
	}
}

// order sorts the servers by rank. HCCL requires ranks without gaps, with those of a server
// consecutive.
func (r *tableReader) order(root *element) {
	if r.err != nil {
		return
	}
	for rank := range len(r.ranks) {
		if r.ranks[rank] == nil {
			highest := slices.Max(slices.Collect(maps.Keys(r.ranks)))
			r.refuse(r.ranks[highest], "rank %d of %d devices; ranks run from 0 without gaps, and %d is missing", highest, len(r.ranks), rank)
			return
		}
	}
	slices.SortFunc(r.table.Servers, func(a, b RankServer) int { return a.Devices[0].Rank - b.Devices[0].Rank })
	for i, s := range r.table.Servers {
		for j, d := range s.Devices {
			if d.Rank != len(r.table.at) {
				r.refuse(r.ranks[d.Rank], "rank %d is on server %q, rank %d is not; the ranks of a server follow one another", d.Rank, s.ID, d.Rank-1)
				return
			}
			r.table.at = append(r.table.at, place{server: i, device: j})
		}
	}
}

// check refuses a value that is not an object, lacks a key, or has an unknown key.
func (r *tableReader) check(e *element, k keys) {
	if r.err != nil {
		return
	}
	if e.object == nil {
		r.refuse(e, "%s where an object is due", e.kind())
		return
	}
	for _, key := range k.required {
		if e.object[key] == nil {
			r.refuse(e, "%s is missing", key)
			return
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.object)) {
		if !slices.Contains(k.required, key) && !slices.Contains(k.optional, key) {
			r.refuse(e.object[key], "no such key; there are %s", strings.Join(slices.Concat(k.required, k.optional), ", "))
			return
		}
	}
}

// items returns the elements of the array under key.
func (r *tableReader) items(e *element, key string) []*element {
	if r.err != nil {
		return nil
	}
	return r.elements(e.object[key])
}

func (r *tableReader) elements(e *element) []*element {
	if e.list == nil {
		r.refuse(e, "%s where an array is due", e.kind())
	}
	return e.list
}

func (r *tableReader) text(e *element) string {
	s, ok := e.value.(string)
	if !ok {
		r.refuse(e, "%s where a string is due; rank tables write numbers as strings too", e.kind())
	}
	return s
}

func (r *tableReader) optional(e *element, key string) string {
	if e.object[key] == nil {
		return ""
	}
	return r.text(e.object[key])
}

func (r *tableReader) number(e *element) int {
	s := r.text(e)
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		r.refuse(e, "%q is not a count", s)
	}
	return int(n)
}

func (r *tableReader) port(e *element) int {
	if e == nil {
		return 0
	}
	n := r.number(e)
	if n < 1 || n > 65535 {
		r.refuse(e, "%d is not a port", n)
	}
	return n
}

func (r *tableReader) address(e *element) netip.Addr {
	if e == nil {
		return netip.Addr{}
	}
	return r.oneAddress(e, r.text(e))
}

// addresses reads a comma-separated list of addresses; servers with bonded cards have several.
func (r *tableReader) addresses(e *element) []netip.Addr {
	if e == nil {
		return nil
	}
	var list []netip.Addr
	for s := range strings.SplitSeq(r.text(e), ",") {
		list = append(list, r.oneAddress(e, s))
	}
	return list
}

func (r *tableReader) oneAddress(e *element, s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	if err != nil {
		r.refuse(e, "%q is not an IP address", s)
	}
	return a
}

func (t *RankTable) server(id string) *RankServer {
	for i := range t.Servers {
		if t.Servers[i].ID == id {
			return &t.Servers[i]
		}
	}
	return nil
}
