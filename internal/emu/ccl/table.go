package ccl

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/handshake"
)

// rankTable holds the fields of a cluster information file that this emulator uses.
type rankTable struct {
	digest [sha256.Size]byte // SHA-256 of the file
	root   string            // host at which rank 0 listens, "" for the default
	ranks  []position
}

// tableFile is the JSON file of versions 1.0 and 1.2, in which numbers are strings.
type tableFile struct {
	Version string        `json:"version"`
	Status  string        `json:"status"`
	Count   *string       `json:"server_count"`
	Servers []tableServer `json:"server_list"`
	Pods    []tablePod    `json:"super_pod_list"`
}

type tableServer struct {
	ID      string `json:"server_id"`
	HostIP  string `json:"host_ip"`
	Devices []struct {
		ID    string  `json:"device_id"`
		Rank  string  `json:"rank_id"`
		Super *string `json:"super_device_id"`
		IP    *string `json:"device_ip"`
	} `json:"device"`
}

type tablePod struct {
	ID      string `json:"super_pod_id"`
	Servers []struct {
		ID string `json:"server_id"`
	} `json:"server_list"`
}

// longestPath is the maximum size in bytes of a path, including the NUL.
const longestPath = 4096

func readTable(function, path string) (*rankTable, error) {
	if len(path) >= longestPath {
		return nil, refuse(badParameter, "EI0004: %s: a path of %d bytes; at most %d are possible", function, len(path), longestPath-1)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, refuse(internal, "EI0004: %s: %v", function, err)
	}
	t, err := parseTable(text)
	if err != nil {
		return nil, refuse(internal, "EI0004: %s: %s: %v", function, path, err)
	}
	return t, nil
}

// parseTable refuses what HCCL cannot work with.
func parseTable(text []byte) (*rankTable, error) {
	var f tableFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	switch {
	case f.Version != "1.0" && f.Version != "1.2":
		return nil, fmt.Errorf("version %q; 1.0 and 1.2 are supported", f.Version)
	case f.Status != "completed":
		return nil, fmt.Errorf("status %q; it is not \"completed\"", f.Status)
	case f.Count != nil && *f.Count != strconv.Itoa(len(f.Servers)):
		return nil, fmt.Errorf("server_count is %q, server_list has %d entries", *f.Count, len(f.Servers))
	}
	t := &rankTable{digest: sha256.Sum256(text)}
	servers := make(map[string]bool)
	places := make(map[int]position)
	for i, s := range f.Servers {
		if s.ID == "" || servers[s.ID] {
			return nil, fmt.Errorf("server_list[%d]: server_id %q is empty or occurs twice", i, s.ID)
		}
		servers[s.ID] = true
		if err := s.add(f.Version, position{server: i, pod: f.podOf(s.ID)}, places); err != nil {
			return nil, fmt.Errorf("server_list[%d]%v", i, err)
		}
	}
	for r := range len(places) {
		p, ok := places[r]
		if !ok {
			return nil, fmt.Errorf("rank_id %d is missing; ranks are numbered from 0", r)
		}
		t.ranks = append(t.ranks, p)
	}
	if len(t.ranks) == 0 {
		return nil, fmt.Errorf("the table has no devices")
	}
	if len(f.Servers) > 1 {
		t.root = f.host()
	}
	return t, nil
}

// add adds the devices of a server to places. Their ranks must be consecutive.
func (s tableServer) add(version string, at position, places map[int]position) error {
	first, last := -1, -1
	for i, d := range s.Devices {
		device, err := strconv.Atoi(d.ID)
		if err != nil || device < 0 {
			return fmt.Errorf(".device[%d]: device_id %q is no number", i, d.ID)
		}
		rank, err := strconv.Atoi(d.Rank)
		if err != nil || rank < 0 {
			return fmt.Errorf(".device[%d]: rank_id %q is no number", i, d.Rank)
		}
		at := at
		at.device, at.superID = device, unknownSuperID
		if given := d.Super != nil && *d.Super != ""; !given && version == "1.2" {
			return fmt.Errorf(".device[%d]: super_device_id is missing", i)
		} else if given {
			n, err := strconv.ParseUint(*d.Super, 10, 32)
			if err != nil {
				return fmt.Errorf(".device[%d]: super_device_id %q is no number", i, *d.Super)
			}
			at.superID = uint32(n)
		}
		if _, twice := places[rank]; twice {
			return fmt.Errorf(".device[%d]: rank_id %d occurs twice", i, rank)
		}
		if d.IP != nil && *d.IP != "" {
			if at.ips, err = readAddresses(*d.IP); err != nil {
				return fmt.Errorf(".device[%d]: %w", i, err)
			}
		}
		places[rank] = at
		if first < 0 || rank < first {
			first = rank
		}
		last = max(last, rank)
	}
	if len(s.Devices) > 0 && last-first+1 != len(s.Devices) {
		return fmt.Errorf(": ranks %d to %d on %d devices; the ranks of a server are behind each other", first, last, len(s.Devices))
	}
	return nil
}

// podOf returns the number of the super pod of a server.
func (f *tableFile) podOf(server string) int {
	for i, p := range f.Pods {
		for _, s := range p.Servers {
			if s.ID == server {
				return i
			}
		}
	}
	return unknownPod
}

// host returns the address of the server with rank 0.
func (f *tableFile) host() string {
	for _, s := range f.Servers {
		for _, d := range s.Devices {
			if d.Rank != "0" {
				continue
			}
			for _, a := range []string{s.HostIP, s.ID} {
				if net.ParseIP(a) != nil {
					return a
				}
			}
		}
	}
	return ""
}

func (l *Library) HcclCommInitClusterInfo(t *rt.Thread, clusterInfo string, rank uint32, comm rt.Out[rt.Handle]) error {
	return l.joinTable(t, "HcclCommInitClusterInfo", clusterInfo, rank, defaults(""), comm)
}

func (l *Library) HcclCommInitClusterInfoConfig(t *rt.Thread, clusterInfo string, rank uint32, config config, comm rt.Out[rt.Handle]) error {
	return l.joinTable(t, "HcclCommInitClusterInfoConfig", clusterInfo, rank, config, comm)
}

// worldName is the name of communicators made from a table.
const worldName = "hccl_world_group"

// joinTable makes the communicator of a rank table. As with HCCL, the ranks do not connect
// before their first collective.
func (l *Library) joinTable(t *rt.Thread, call, path string, rank uint32, cfg config, out rt.Out[rt.Handle]) error {
	if l.invalid != nil {
		return l.invalid
	}
	device, code := l.rt.CurrentDevice(t)
	if code != 0 {
		return refuse(runtimeError, "EI0003: %s: no device is set on this thread", call)
	}
	table, err := readTable(call, path)
	if err != nil {
		return err
	}
	if int64(rank) >= int64(len(table.ranks)) {
		return refuse(badParameter, "EI0003: %s: rank %d is not in the table of %d ranks", call, rank, len(table.ranks))
	}
	if want, have := table.ranks[rank].device, l.rt.PhysicalDevice(device); want != have {
		return refuse(unavailable, "EI0004: %s: the table has rank %d on device %d of its server, and device %d is set on this thread", call, rank, want, have)
	}
	cfg.name = cmp.Or(cfg.name, worldName)
	owner, err := l.ownerOf(t, call)
	if err != nil {
		return err
	}
	c, err := l.newComm(cfg, device, owner, int(rank), len(table.ranks))
	if err != nil {
		return refuse(unavailable, "%s: %v", call, err)
	}
	c.positions = table.ranks
	c.connect = func() error { return l.linkByTable(c, table) }
	out.Set(c.publish())
	return nil
}

// linkByTable links the ranks through a root at rank 0, whose port follows from the table.
func (l *Library) linkByTable(c *comm, table *rankTable) error {
	host := table.root
	if host == "" {
		host = listenHost()
	}
	base, err := basePort()
	if err != nil {
		return err
	}
	address := net.JoinHostPort(host, strconv.Itoa(base+table.ranks[0].device))
	secret, err := table.secret(address)
	if err != nil {
		return err
	}
	g := gathering{l: l, secret: secret, root: address, deadline: l.connectDeadline()}
	if c.rank == 0 {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return refuse(unavailable, "EI0019: %v: %s is taken (HCCL_IF_BASE_PORT): %v", c, address, err)
		}
		g.own = l.serve(newRoot(listener, secret))
	}
	return g.link(c)
}

// secret returns what the ranks prove to one another that they know: the table and the job's secret.
// A table alone is no secret, so it is refused for ranks that other hosts can reach.
func (t *rankTable) secret(address string) ([]byte, error) {
	job := os.Getenv(jobSecret)
	if job == "" && os.Getenv(jobOpen) != "1" && handshake.Exposed(context.Background(), address) {
		return nil, refuse(unavailable, "EI0019: other hosts can reach %s: set %s to the same long random text on all hosts, or %s=1 in a network whose hosts you all trust", address, jobSecret, jobOpen)
	}
	h := hmac.New(sha256.New, []byte(job))
	h.Write(t.digest[:])
	return h.Sum(nil), nil
}
