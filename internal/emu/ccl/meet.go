package ccl

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// A root info holds the magic, a secret, the communicator's name and the root's address.
const (
	rootMagic   = "CANNEMU1"
	rootSecret  = 8
	secretSize  = 32
	rootName    = rootSecret + secretSize
	rootAddress = rootName + 32
	addressSize = 128
)

// root is the listener behind a root info: ranks tell it where they are, and it tells all
// ranks when the last one came.
type root struct {
	name     string
	secret   []byte
	listener net.Listener
	deadline time.Time
	served   sync.WaitGroup

	mu     sync.Mutex
	size   int // what the first rank said
	guests map[int]guest
	answer *table // what the ranks are told, nil until it is known
	told   int    // ranks that have heard it
}

// guest is a rank that waits for the others.
type guest struct {
	hello hello
	conn  net.Conn
}

// hello is what a rank says of itself.
type hello struct {
	Rank, Size, Device int
	Process            string // equal for ranks of one process
	Host               string // equal for processes that can share memory
	Address            string // where peers of other processes connect
}

// table is the root's answer.
type table struct {
	Peers   []hello // by rank
	Session string  // names this meeting
	Code    int32   // HcclResult when ranks are missing or contradict each other
	Text    string
}

func (l *Library) getRootInfo(t *rt.Thread, a []uint64) uint64 {
	return answer(t, l.makeRoot(t, a[0]))
}

func (l *Library) makeRoot(t *rt.Thread, out uint64) error {
	const call = "HcclGetRootInfo"
	if l.invalid != nil {
		return l.invalid
	}
	if out == 0 {
		return null(call, "rootInfo")
	}
	if _, code := l.rt.CurrentDevice(t); code != 0 {
		return refuse(runtimeError, "EI0003: %s: no device is set on this thread", call)
	}
	listener, err := listenRoot()
	if err != nil {
		return err
	}
	r := l.serve(newRoot(listener, []byte(random(secretSize/2))))
	var info [abi.HCCL_ROOT_INFO_BYTES]byte
	copy(info[:], rootMagic)
	copy(info[rootSecret:], r.secret)
	copy(info[rootName:], r.name)
	copy(info[rootAddress:], listener.Addr().String())
	rt.Write(out, info)
	return nil
}

func newRoot(listener net.Listener, secret []byte) *root {
	return &root{name: random(16), secret: secret, listener: listener, guests: make(map[int]guest)}
}

func (l *Library) connectDeadline() time.Time { return time.Now().Add(l.timeouts.Connect) }

// serve lets a root take ranks until all came, the time is up, or it gives up.
func (l *Library) serve(r *root) *root {
	r.deadline = l.connectDeadline()
	l.mu.Lock()
	l.roots[r.name] = r
	l.mu.Unlock()
	go func() {
		r.serve()
		l.mu.Lock()
		delete(l.roots, r.name)
		l.mu.Unlock()
	}()
	return r
}

// giveUp tells the ranks that wait that there will be no communicator.
func (r *root) giveUp(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answer == nil {
		r.tell(table{Code: internal, Text: fmt.Sprintf("EI0015: the root gave up: %v", why)})
	}
}

func (r *root) serve() {
	if d, ok := r.listener.(*net.TCPListener); ok {
		_ = d.SetDeadline(r.deadline)
	}
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			break
		}
		r.served.Go(func() { r.admit(conn) })
	}
	r.served.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.listener.Close()
	if r.answer == nil && len(r.guests) > 0 {
		r.tell(table{Code: timedOut, Text: fmt.Sprintf("EI0015: ranks %s of %d did not join in HCCL_CONNECT_TIMEOUT", r.missing(), r.size)})
	}
}

func (r *root) missing() string {
	var m []string
	for i := range r.size {
		if _, ok := r.guests[i]; !ok {
			m = append(m, fmt.Sprint(i))
		}
	}
	return strings.Join(m, ", ")
}

// admit hears a rank out. A stranger that does not know the secret is sent away unheard.
func (r *root) admit(conn net.Conn) {
	_ = conn.SetDeadline(early(r.deadline))
	var h hello
	if answerer(conn, r.secret) != nil || readJSON(conn, &h) != nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetDeadline(r.deadline.Add(patience))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size == 0 {
		r.size = h.Size
	}
	switch earlier, taken := r.guests[h.Rank]; {
	case r.answer != nil:
		r.inform(conn)
		return
	case h.Size != r.size:
		r.refuse(guest{h, conn}, fmt.Sprintf("EI0014: rank %d says that there are %d ranks, others say %d", h.Rank, h.Size, r.size))
		return
	case h.Rank < 0 || h.Rank >= r.size:
		r.refuse(guest{h, conn}, fmt.Sprintf("EI0014: rank %d of %d", h.Rank, r.size))
		return
	case taken:
		r.refuse(guest{h, conn}, fmt.Sprintf("EI0014: rank %d joined twice, from %s and %s", h.Rank, earlier.hello.Address, h.Address))
		return
	}
	r.guests[h.Rank] = guest{h, conn}
	if len(r.guests) < r.size {
		return
	}
	peers := make([]hello, r.size)
	for i, g := range r.guests {
		peers[i] = g.hello
	}
	r.tell(table{Peers: peers, Session: r.name})
}

// refuse tells all ranks, the offender too, that the communicator cannot be made; r.mu is
// held.
func (r *root) refuse(offender guest, text string) {
	r.tell(table{Code: internal, Text: text})
	r.inform(offender.conn)
}

// tell answers all who wait and, when there will be no communicator, who come soon after; r.mu
// is held.
func (r *root) tell(answer table) {
	r.answer = &answer
	if answer.Code == 0 {
		// All have come: whoever connects from now on means the next root at this address.
		_ = r.listener.Close()
	} else if d, ok := r.listener.(*net.TCPListener); ok {
		_ = d.SetDeadline(time.Now().Add(2 * patience))
	}
	for _, g := range r.guests {
		r.inform(g.conn)
	}
	r.guests = nil
}

// inform gives a rank the answer. The listening ends with the last one; r.mu is held.
func (r *root) inform(conn net.Conn) {
	_ = writeJSON(conn, r.answer) // a rank that is gone is found by its peers
	_ = conn.Close()
	if r.told++; r.told == r.size {
		_ = r.listener.Close()
	}
}

func (l *Library) initRootInfo(t *rt.Thread, a []uint64) uint64 {
	return answer(t, l.meet(t, "HcclCommInitRootInfo", uint32(a[0]), a[1], uint32(a[2]), "", a[3]))
}

func (l *Library) initRootInfoConfig(t *rt.Thread, a []uint64) uint64 {
	const call = "HcclCommInitRootInfoConfig"
	c, err := readConfig(call, a[3])
	if err == nil {
		err = l.meet(t, call, uint32(a[0]), a[1], uint32(a[2]), c.name, a[4])
	}
	return answer(t, err)
}

// meet joins the communicator of a root info and waits for the other ranks.
func (l *Library) meet(t *rt.Thread, call string, size uint32, info uint64, rank uint32, name string, out uint64) error {
	switch {
	case l.invalid != nil:
		return l.invalid
	case info == 0 || out == 0:
		return notNull(call, []string{"rootInfo", "comm"}, info, out)
	case size == 0 || rank >= size:
		return refuse(badParameter, "EI0003: %s: rank %d of %d ranks", call, rank, size)
	}
	device, code := l.rt.CurrentDevice(t)
	if code != 0 {
		return refuse(runtimeError, "EI0003: %s: no device is set on this thread", call)
	}
	b := rt.Read[byte](info, abi.HCCL_ROOT_INFO_BYTES)
	if string(b[:rootSecret]) != rootMagic {
		return refuse(badParameter, "EI0003: %s: this is no root info of HcclGetRootInfo", call)
	}
	id := string(b[rootName:rootAddress])
	address, _, _ := strings.Cut(string(b[rootAddress:rootAddress+addressSize]), "\x00")
	if name == "" {
		name = id
	}
	l.mu.Lock()
	own := l.roots[id]
	l.mu.Unlock()
	g := gathering{l: l, secret: b[rootSecret:rootName], root: address, deadline: l.connectDeadline(), own: own}
	c, err := l.newComm(name, device, int(rank), int(size))
	if err != nil {
		return err
	}
	if err = g.link(c); err != nil {
		c.close()
		return err
	}
	rt.Write(out, c.publish())
	return nil
}

// gathering is one rank's way into a communicator.
type gathering struct {
	l        *Library
	secret   []byte
	root     string
	deadline time.Time
	own      *root // the root, when it is in this process; it ends when this rank fails
}

// link asks the root who the peers are and links to each.
func (g *gathering) link(c *comm) error {
	err := g.connectAll(c)
	if err != nil && g.own != nil {
		g.own.giveUp(err)
	}
	return err
}

func (g *gathering) connectAll(c *comm) error {
	listener, err := listenAnywhere()
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	answer, err := g.peers(c, listener.Addr().String())
	if err != nil {
		return err
	}
	peers := answer.Peers
	here := func(r int) bool { return peers[r].Process == g.l.unique }
	if err := c.enter(answer.Session, here); err != nil {
		return err
	}
	if err := g.dial(c, peers, here); err != nil {
		return err
	}
	return g.accept(c, listener, peers, here)
}

// peers waits for the root's answer.
func (g *gathering) peers(c *comm, address string) (answer table, err error) {
	conn, err := g.reach(g.root)
	if err != nil {
		return answer, refuse(timedOut, "EI0015: %v: the root at %s is not reached in HCCL_CONNECT_TIMEOUT: %v", c, g.root, err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(g.deadline.Add(2 * patience))
	err = writeJSON(conn, hello{Rank: c.rank, Size: c.size, Device: c.device, Process: g.l.unique, Host: g.l.host, Address: address})
	if err == nil {
		err = readJSON(conn, &answer)
	}
	switch {
	case err != nil:
		return answer, refuse(internal, "EI0015: %v: the root at %s broke off: %v", c, g.root, err)
	case answer.Code != 0:
		return answer, refuse(answer.Code, "%s", answer.Text)
	case len(answer.Peers) != c.size:
		return answer, refuse(badParameter, "EI0015: %v: the root lists %d ranks", c, len(answer.Peers))
	}
	return answer, nil
}

// reach connects to a root that may not listen yet.
func (g *gathering) reach(address string) (net.Conn, error) {
	pause := time.Millisecond
	for {
		conn, err := g.connect(address)
		// Refused: nobody listens yet. Reset: an earlier root has just stopped.
		again := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
		if !again || time.Until(g.deadline) < pause {
			return conn, err
		}
		<-time.After(pause)
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// connect dials an address until it answers and both sides have proved that they know the
// secret.
func (g *gathering) connect(address string) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", address, time.Until(g.deadline))
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(early(g.deadline))
	if err := asker(conn, g.secret); err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, nil
}

func (g *gathering) dial(c *comm, peers []hello, here func(int) bool) error {
	for r := range c.rank {
		if here(r) {
			continue
		}
		conn, err := g.connect(peers[r].Address)
		if err == nil {
			_ = conn.SetDeadline(g.deadline)
			err = writeJSON(conn, hello{Rank: c.rank})
		}
		var shared *region
		if err == nil && peers[r].Host == g.l.host {
			shared, err = offer(conn, g.l.rt.Memory(c.device))
		}
		if err != nil {
			return refuse(timedOut, "EI0006: %v: no link to rank %d at %s: %v", c, r, peers[r].Address, err)
		}
		if err := c.attach(r, conn, peers[r].Address, shared); err != nil {
			return err
		}
	}
	return nil
}

// accept takes the connections of the higher ranks.
func (g *gathering) accept(c *comm, listener net.Listener, peers []hello, here func(int) bool) error {
	missing := 0
	for r := c.rank + 1; r < c.size; r++ {
		if !here(r) {
			missing++
		}
	}
	if d, ok := listener.(*net.TCPListener); ok {
		_ = d.SetDeadline(g.deadline)
	}
	for missing > 0 {
		conn, err := listener.Accept()
		if err != nil {
			return refuse(timedOut, "EI0006: %v: %d peers did not connect in HCCL_CONNECT_TIMEOUT: %v", c, missing, err)
		}
		_ = conn.SetDeadline(early(g.deadline))
		var h hello
		if answerer(conn, g.secret) != nil || readJSON(conn, &h) != nil ||
			h.Rank <= c.rank || h.Rank >= c.size || here(h.Rank) || c.links[h.Rank] != nil {
			_ = conn.Close()
			continue
		}
		_ = conn.SetDeadline(g.deadline)
		var shared *region
		if peers[h.Rank].Host == g.l.host {
			if shared, err = join(conn, g.l.rt.Memory(c.device)); err != nil {
				return refuse(timedOut, "EI0006: %v: no link to rank %d: %v", c, h.Rank, err)
			}
		}
		if err := c.attach(h.Rank, conn, peers[h.Rank].Address, shared); err != nil {
			return err
		}
		missing--
	}
	return nil
}

// attach makes an authenticated connection the link to a peer.
func (c *comm) attach(peer int, conn net.Conn, address string, shared *region) (err error) {
	_ = conn.SetDeadline(time.Time{})
	c.links[peer], err = newWire(conn, address, shared).connect(c, 0, peer)
	return err
}

// derive makes a communicator of some members of this one, over the same connections.
func (c *comm) derive(name, id string, members []uint32, rank int) (*comm, error) {
	sub, err := c.library.newComm(name, c.device, rank, len(members))
	if err != nil {
		return nil, err
	}
	sub.sub = true
	// The members make the same parts in the same order, so they count alike.
	if c.parts == nil {
		c.parts = make(map[string]int)
	}
	c.parts[id]++
	id = fmt.Sprintf("%s/%s/%d", c.fabric.id, id, c.parts[id])
	here := func(r int) bool {
		_, ok := c.links[members[r]].(*pipe)
		return ok
	}
	if err := sub.enter(id, here); err != nil {
		sub.close()
		return nil, err
	}
	number := fnv.New64a()
	_, _ = number.Write([]byte(id)) // never fails
	for r, m := range members {
		w := wireOf(c.links[m])
		if w == nil {
			continue
		}
		peer, err := w.connect(sub, number.Sum64(), r)
		if err != nil {
			sub.close()
			return nil, err
		}
		sub.links[r] = peer
	}
	return sub, nil
}

// wireOf is the connection of a link, nil for one within the process.
func wireOf(l link) *wire {
	switch l := l.(type) {
	case *channel:
		return l.w
	case *lane:
		return l.w
	}
	return nil
}
