package world

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"

	"github.com/goascend/cann/internal/handshake"
)

// part is a rank's message to the others about its future subgroup.
type part struct {
	Name    string
	Ranks   []int
	Address string // of the first rank of the subgroup
}

// Sub splits the group. All ranks call Sub, each with the list of the ranks of its own subgroup,
// including itself; the position in the list is the rank in the new group. Ranks that pass
// different lists for one subgroup get ErrDisagree, and a subgroup whose ranks cannot reach one
// another gets an error: there is no fallback to another group.
//
// The first rank of a subgroup listens on a port chosen by the kernel, at the address by which it
// reaches rank 0 of the parent. A subgroup of one rank needs no connection.
func (g *Group) Sub(ctx context.Context, name string, ranks []int) (*Group, error) {
	label := "split into " + name
	if err := g.usable(ctx, label); err != nil {
		return nil, err
	}
	self := slices.Index(ranks, g.rank)
	mine := part{Name: name, Ranks: ranks}
	var ln net.Listener
	err := g.checkPart(label, ranks)
	if err == nil && g.simulated {
		sub, err := Simulated(self, len(ranks))
		if err == nil {
			sub.name = name
		}
		return sub, err
	}
	if err == nil && self == 0 && len(ranks) > 1 {
		if ln, err = g.openPart(ctx, label); err == nil {
			defer ln.Close()
			mine.Address = ln.Addr().String()
		}
	}
	r := round{label: label, limit: g.listLimit(), spread: packAll, err: err}
	if err == nil {
		r.body, r.err = encodeObject(mine)
	}
	body, err := g.run(ctx, r)
	if err != nil {
		return nil, err
	}
	parts, err := decodeList[part](g, label, body)
	if err != nil {
		return nil, err
	}
	for rank, p := range parts {
		for _, other := range p.Ranks {
			if !slices.Equal(p.Ranks, parts[other].Ranks) {
				return nil, g.failed(label, g.calls, ErrDisagree, nil, fmt.Sprintf("rank %d names %v, rank %d names %v", rank, p.Ranks, other, parts[other].Ranks), rank, other)
			}
		}
	}
	// Subgroups of one parent have the same name and run concurrently, so their keys include the
	// number of the call and the first rank.
	key := binary.BigEndian.AppendUint64([]byte("part"), g.calls)
	key = binary.BigEndian.AppendUint64(key, uint64(ranks[0]))
	place := Place{
		Rank: self, Size: len(ranks), Address: parts[ranks[0]].Address,
		Secret: string(derive(g.secret, key)), Launcher: "group " + g.name,
	}
	return Join(ctx, place, GroupConfig{Name: name, MaxMessage: g.maxMessage, Listener: ln}, WithLogger(g.logger))
}

// checkPart refuses invalid lists of ranks.
func (g *Group) checkPart(label string, ranks []int) error {
	seen := make([]bool, g.size)
	for _, r := range ranks {
		switch {
		case r < 0 || r >= g.size:
			return g.failed(label, 0, ErrDisagree, nil, fmt.Sprintf("%v has rank %d, the group has %d", ranks, r, g.size), g.rank)
		case seen[r]:
			return g.failed(label, 0, ErrDisagree, nil, fmt.Sprintf("%v has rank %d twice", ranks, r), g.rank)
		}
		seen[r] = true
	}
	if !seen[g.rank] {
		return g.failed(label, 0, ErrDisagree, nil, fmt.Sprintf("%v lacks rank %d, which calls", ranks, g.rank), g.rank)
	}
	return nil
}

// openPart listens at an address that the other ranks can reach.
func (g *Group) openPart(ctx context.Context, label string) (net.Listener, error) {
	i := slices.IndexFunc(g.links, func(l *handshake.Conn) bool { return l != nil })
	host, _, err := net.SplitHostPort(g.links[i].LocalAddr().String())
	if err != nil {
		return nil, g.failed(label, 0, ErrRankFailed, err, "no address to listen at", g.rank)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, g.failed(label, 0, ErrRankFailed, err, "cannot listen", g.rank)
	}
	return ln, nil
}
