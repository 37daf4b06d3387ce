package ccl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/handshake"
)

func (l *Library) HcclCommInitRootInfo(t *rt.Thread, nRanks uint32, rootInfo rt.In[rootInfo], rank uint32, comm rt.Out[rt.Handle]) error {
	return l.rendezvous(t, "HcclCommInitRootInfo", nRanks, rootInfo, rank, defaults(""), comm)
}

func (l *Library) HcclCommInitRootInfoConfig(t *rt.Thread, nRanks uint32, rootInfo rt.In[rootInfo], rank uint32, config config, comm rt.Out[rt.Handle]) error {
	return l.rendezvous(t, "HcclCommInitRootInfoConfig", nRanks, rootInfo, rank, config, comm)
}

// rendezvous joins the communicator of a root info and waits for the other ranks.
func (l *Library) rendezvous(t *rt.Thread, call string, size uint32, info rt.In[rootInfo], rank uint32, cfg config, out rt.Out[rt.Handle]) error {
	switch {
	case l.invalid != nil:
		return l.invalid
	case size == 0 || rank >= size:
		return refuse(badParameter, "EI0003: %s: rank %d of %d ranks", call, rank, size)
	}
	device, code := l.rt.CurrentDevice(t)
	if code != 0 {
		return refuse(runtimeError, "EI0003: %s: no device is set on this thread", call)
	}
	b := info.Get()
	if string(b[:rootSecret]) != rootMagic {
		return refuse(badParameter, "EI0003: %s: this is no root info of HcclGetRootInfo", call)
	}
	id := string(b[rootName:rootAddress])
	address, _, _ := strings.Cut(string(b[rootAddress:rootAddress+addressSize]), "\x00")
	cfg.name = cmp.Or(cfg.name, id)
	l.mu.Lock()
	own := l.roots[id]
	l.mu.Unlock()
	g := gathering{l: l, secret: b[rootSecret:rootName], root: address, deadline: l.connectDeadline(), own: own}
	owner, err := l.ownerOf(t, call)
	if err != nil {
		return err
	}
	c, err := l.newComm(cfg, device, owner, int(rank), int(size))
	if err != nil {
		return err
	}
	if l.rt.Schedule == nil { // its peers exist on paper only
		err = g.link(c)
	}
	if err != nil {
		c.close()
		return err
	}
	out.Set(c.publish())
	return nil
}

// gathering holds the state of one rank while it joins a communicator.
type gathering struct {
	l        *Library
	secret   []byte
	root     string
	deadline time.Time
	own      *root // the root, when it is in this process; it gives up when this rank fails
}

// link gets the list of peers from the root and connects to each of them.
func (g *gathering) link(c *comm) error {
	err := g.connectAll(c)
	if err == nil || g.own == nil {
		return err
	}
	defer g.l.forget(g.own)
	if failure := g.own.failure(); failure != nil { // the cause of what happened to this rank
		return failure
	}
	g.own.giveUp(err)
	return err
}

func (g *gathering) connectAll(c *comm) error {
	open, err := listenAnywhere()
	if err != nil {
		return err
	}
	listener := handshake.Listen(open, protocol, g.secret, nil)
	defer g.l.serving.Go(func() { _ = listener.Close() }) // may wait for strangers
	answer, err := g.peers(c, listener.Addr().String())
	if err != nil {
		return err
	}
	peers := answer.Peers
	if c.positions == nil {
		c.positions = positionsOf(peers)
	}
	here := func(r int) bool { return peers[r].Process == g.l.unique }
	if err := c.enter(answer.Session, here); err != nil {
		return err
	}
	if err := g.dial(c, peers, here); err != nil {
		return err
	}
	return g.accept(c, listener, peers, here)
}

// positionsOf returns where ranks are that have met at a root: processes that can share memory are on one server.
func positionsOf(peers []hello) (all []position) {
	servers := make(map[string]int)
	for _, h := range peers {
		server, ok := servers[h.Host]
		if !ok {
			server = len(servers)
			servers[h.Host] = server
		}
		all = append(all, position{server: server, device: h.Physical, pod: unknownPod, superID: unknownSuperID, chip: h.Chip})
	}
	return all
}

// peers reports this rank to the root and waits for the list of peers.
func (g *gathering) peers(c *comm, address string) (answer table, err error) {
	conn, err := g.reach(g.root, hello{Rank: c.rank, Size: c.size, Device: c.device, Physical: g.l.rt.PhysicalDevice(c.device), Chip: g.l.rt.SoC(), Process: g.l.unique, Host: g.l.host, Address: address})
	if err != nil {
		return answer, refuse(timedOut, "EI0015: %v: the root at %s is not reached in HCCL_CONNECT_TIMEOUT: %v", c, g.root, err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(g.deadline.Add(2 * patience))
	switch err = receive(conn, &answer); {
	case err != nil:
		return answer, refuse(internal, "EI0015: %v: the root at %s broke off: %v", c, g.root, err)
	case answer.Code != 0:
		return answer, refuse(answer.Code, "%s", answer.Text)
	case len(answer.Peers) != c.size:
		return answer, refuse(badParameter, "EI0015: %v: the root lists %d ranks", c, len(answer.Peers))
	}
	return answer, nil
}

// reach connects to a root that may not be listening yet, or to a peer, and retries until the
// deadline, or until the root of this process fails.
func (g *gathering) reach(address string, h hello) (*handshake.Conn, error) {
	pause := time.Millisecond
	for {
		conn, err := g.connect(address, h)
		// Refused: the root is not listening yet. Reset or EOF: an earlier root just stopped, or the
		// other side has turned this connection away because too many wait there.
		again := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) ||
			errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) ||
			errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) // of one attempt
		if !again || time.Until(g.deadline) < pause || g.own != nil && g.own.failure() != nil {
			return conn, err
		}
		<-time.After(pause)
		pause = min(2*pause, 100*time.Millisecond)
	}
}

var errStranger = errors.New("the other side does not know the root info")

// connect dials an address, proves that this rank knows the secret, and sends its hello.
func (g *gathering) connect(address string, h hello) (*handshake.Conn, error) {
	said, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(context.Background(), g.deadline)
	defer cancel()
	conn, err := handshake.Dial(ctx, address, protocol, g.secret, said)
	if errors.Is(err, handshake.ErrSecret) {
		err = errStranger
	}
	return conn, err
}

func (g *gathering) dial(c *comm, peers []hello, here func(int) bool) error {
	for r := range c.rank {
		if here(r) {
			continue
		}
		conn, err := g.reach(peers[r].Address, hello{Rank: c.rank})
		var shared *region
		if err == nil && peers[r].Host == g.l.host {
			_ = conn.SetDeadline(g.deadline)
			shared, err = offer(conn, g.l.rt.Memory(c.device))
		}
		if err != nil {
			if conn != nil {
				_ = conn.Close()
			}
			return refuse(timedOut, "EI0006: %v: no link to rank %d at %s: %v", c, r, peers[r].Address, err)
		}
		if err := c.attach(r, conn, peers[r].Address, shared); err != nil {
			return err
		}
	}
	return nil
}

// accept accepts the connections of the higher ranks.
func (g *gathering) accept(c *comm, listener *handshake.Listener, peers []hello, here func(int) bool) error {
	missing := 0
	for r := c.rank + 1; r < c.size; r++ {
		if !here(r) {
			missing++
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), g.deadline)
	defer cancel()
	for missing > 0 {
		conn, err := listener.Accept(ctx)
		if err != nil && ctx.Err() == nil {
			return refuse(unavailable, "EI0019: %v: the connections of %d peers cannot be accepted: %v", c, missing, err)
		}
		if err != nil {
			return refuse(timedOut, "EI0006: %v: %d peers did not connect in HCCL_CONNECT_TIMEOUT: %v", c, missing, err)
		}
		var h hello
		if json.Unmarshal(conn.Hello(), &h) != nil || h.Rank <= c.rank || h.Rank >= c.size || here(h.Rank) || c.links[h.Rank] != nil {
			_ = conn.Close()
			continue
		}
		_ = conn.SetDeadline(g.deadline)
		var shared *region
		if peers[h.Rank].Host == g.l.host {
			if shared, err = join(conn, g.l.rt.Memory(c.device)); err != nil {
				_ = conn.Close()
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

// attach uses an authenticated connection as the link to a peer.
func (c *comm) attach(peer int, conn *handshake.Conn, address string, shared *region) (err error) {
	_ = conn.SetDeadline(time.Time{})
	c.links[peer], err = newWire(conn, address, shared).connect(c, 0, peer)
	return err
}

// partID returns the id of the next sub-communicator with these ranks and this id. All members make the same ones in the
// same order, so their counts agree.
func (c *comm) partID(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts == nil {
		c.parts = make(map[string]int)
	}
	c.parts[id]++
	return fmt.Sprintf("%s/%s/%d", c.fabric.id, id, c.parts[id])
}

// derive makes a sub-communicator of the given members, over the same connections.
func (c *comm) derive(cfg config, owner int, id string, members []uint32, rank int) (*comm, error) {
	sub, err := c.library.newComm(cfg, c.device, owner, rank, len(members))
	if err != nil {
		return nil, err
	}
	sub.sub = true
	for _, m := range members {
		if c.positions != nil {
			sub.positions = append(sub.positions, c.positions[m])
		}
	}
	id = c.partID(id)
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

// wireOf returns the connection of a link, or nil for a link within the process.
func wireOf(l link) *wire {
	switch l := l.(type) {
	case *channel:
		return l.w
	case *sharedLink:
		return l.w
	}
	return nil
}
