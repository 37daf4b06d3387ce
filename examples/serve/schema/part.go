package schema

import (
	"hash/maphash"
	"slices"
	"sort"

	"github.com/goascend/cann/examples/budget"
)

// part describes the value to be read next, and the rest after it: a stack. nil is the end of the text. Parts do not change,
// so that stacks share their ends.
type part struct {
	kind  kind
	node  *node
	words *words
	// Of a literal, the words that it can still be, and how many of their bytes were read.
	low, high, read int
	// n is the state of a string or number, the first member that may come in an object, or the number of items of an array.
	n    int
	next *part
	fork []*part // of a fork, which has no next

	hash  uint64 // of the stack
	depth int    // arrays and objects in the stack
}

type kind uint8

const (
	literal kind = iota // one of words
	blank               // a space, or none
	value               // of node
	inside              // a string after its quote
	digits              // a number
	opened              // an object without members so far
	listed              // an object with members
	another             // a member
	items               // an array
	fork                // what comes after one of several strings
)

// Literals of JSON.
var (
	null     = &words{sorted: []string{"null"}}
	booleans = &words{sorted: []string{"false", "true"}}
	colon    = &words{sorted: []string{":"}}
)

// mostNested is how many arrays and objects of a text lie inside one another, so that its stacks stay small.
const mostNested = 256

// mostStacks bounds the work for schemas that leave much open. Each stack leads to right texts, so that any can be left out.
const mostStacks = mostChoices

var seed = maphash.MakeSeed()

// with completes a part: equal stacks have the same hash.
func (p part) with(next *part) *part {
	type content struct {
		kind               kind
		node               *node
		words              *words
		low, high, read, n int
		next               uint64
	}
	x := content{p.kind, p.node, p.words, p.low, p.high, p.read, p.n, 0}
	p.next, p.depth = next, 0
	if next != nil {
		x.next, p.depth = next.hash, next.depth
	}
	if p.kind == items || p.kind == opened || p.kind == listed {
		p.depth++
	}
	p.hash = maphash.Comparable(seed, x)
	return &p
}

// equal reports whether two stacks are the same.
func equal(p, q *part) bool {
	for ; p != q; p, q = p.next, q.next {
		if p == nil || q == nil || p.hash != q.hash || p.kind != q.kind || p.node != q.node || p.words != q.words ||
			p.low != q.low || p.high != q.high || p.read != q.read || p.n != q.n {
			return false
		}
	}
	return true
}

// reader reads bytes, each of which is a step for each stack.
type reader struct {
	budget *budget.Budget
	err    error // of the budget, after which nothing is read
}

func (r *reader) step(n int) bool {
	if r.err == nil {
		r.err = r.budget.Step(n)
	}
	return r.err == nil
}

// all returns what is left of some stacks after a byte, without those that are the same. Most texts leave one.
func (r *reader) all(stacks []*part, b byte, out []*part) []*part {
	for _, p := range stacks {
		out = r.read(p, b, out)
	}
	if len(out) < 2 || !r.step(len(out)) {
		return out
	}
	seen := make(map[uint64]bool, len(out))
	out = slices.DeleteFunc(out, func(p *part) bool {
		again := seen[hashOf(p)]
		seen[hashOf(p)] = true
		return again
	})
	return out[:min(len(out), mostStacks)]
}

// hashOf is the hash of a stack, also of the end of the text.
func hashOf(p *part) uint64 {
	if p == nil {
		return 0
	}
	return p.hash
}

// read appends what is left of a stack after a byte to out: nothing if the byte is wrong, and several stacks if the schema
// leaves it open.
func (r *reader) read(p *part, b byte, out []*part) []*part {
	for ; p != nil && r.step(0); p = p.next {
		switch p.kind {
		case literal:
			return r.literal(p, b, out)
		case blank:
			if b == ' ' {
				return append(out, p.next)
			}
			continue // without a space
		case value:
			for _, n := range p.node.leaves {
				out = r.begin(p, n, b, out)
			}
			return out
		case inside:
			if n, ended, ok := inString(p.n, b); ended {
				out = append(out, p.next)
			} else if ok {
				out = append(out, p.at(n))
			}
			return out
		case digits:
			if n, ok := inNumber(p.n, b, p.node != nil); ok {
				out = append(out, p.at(n))
			}
			if numberEnds(p.n) {
				continue
			}
			return out
		case items:
			return r.item(p, b, out)
		case another:
			return r.member(p, b, out)
		case fork:
			for _, q := range p.fork {
				out = r.read(q, b, out)
			}
			return out
		}
		return r.object(p, b, out)
	}
	return out
}

// at is the part in another state.
func (p *part) at(n int) *part {
	q := *p
	q.n = n
	return q.with(p.next)
}

// begin reads the first byte of a value of a node that is no choice, in the place of p.
func (r *reader) begin(p *part, n *node, b byte, out []*part) []*part {
	if !r.step(0) {
		return out
	}
	if n.texts != nil {
		out = r.literal(part{kind: literal, words: n.texts, high: len(n.texts.sorted)}.with(p.next), b, out)
	}
	for _, t := range n.types {
		switch {
		case t == nothing && b == 'n':
			out = r.literal(part{kind: literal, words: null, high: 1}.with(p.next), b, out)
		case t == boolean && (b == 't' || b == 'f'):
			out = r.literal(part{kind: literal, words: booleans, high: 2}.with(p.next), b, out)
		case t == text && b == '"':
			out = append(out, part{kind: inside}.with(p.next))
		case t == integer || t == number:
			x := part{kind: digits}
			if t == number {
				x.node = n // it may have a fraction
			}
			if state, ok := inNumber(start, b, t == number); ok {
				x.n = state
				out = append(out, x.with(p.next))
			}
		case t == object && b == '{' && p.depth < mostNested:
			out = append(out, part{kind: opened, node: n}.with(p.next))
		case t == array && b == '[' && p.depth < mostNested:
			out = append(out, part{kind: items, node: n}.with(p.next))
		}
	}
	return out
}

// literal reads a byte of one of some words. Those that are left begin alike.
func (r *reader) literal(p *part, b byte, out []*part) []*part {
	all := p.words.sorted[p.low:p.high]
	low := p.low + sort.Search(len(all), func(i int) bool { return all[i][p.read] >= b })
	high := p.low + sort.Search(len(all), func(i int) bool { return all[i][p.read] > b })
	if p.words.member != nil { // some of them may not come any more
		first, last := low, high
		for low < high && !p.may(low) {
			low++
		}
		for low < high && !p.may(high-1) {
			high--
		}
		if !r.step((low - first + last - high) / 16) {
			return out
		}
	}
	if low == high {
		return out
	}
	if word := p.words.sorted[low]; len(word) == p.read+1 {
		next := p.next
		if p.words.member != nil {
			i := p.words.member[low]
			next = part{kind: listed, node: p.node, n: i + 1}.with(next)
			next = part{kind: blank}.with(part{kind: value, node: p.node.members[i].value}.with(next))
		}
		if out, low = append(out, next), low+1; low == high {
			return out
		}
	}
	q := *p
	q.low, q.high, q.read = low, high, p.read+1
	return append(out, q.with(p.next))
}

// may reports whether the member of a key may come.
func (p *part) may(key int) bool {
	i := p.words.member[key]
	return i >= p.n && i <= p.node.next[p.n]
}

// object reads the end of an object, or what comes before its next member.
func (r *reader) object(p *part, b byte, out []*part) []*part {
	n := p.node
	if b == '}' && n.next[p.n] == len(n.members) {
		return append(out, p.next)
	}
	if p.n == len(n.members) && n.values == nil {
		return out
	}
	more := part{kind: another, node: n, n: p.n}
	switch {
	case p.kind == opened:
		return r.member(more.with(p.next), b, out)
	case b == ',':
		return append(out, part{kind: blank}.with(more.with(p.next)))
	}
	return out
}

// member reads the first byte of a member.
func (r *reader) member(p *part, b byte, out []*part) []*part {
	n := p.node
	switch {
	case b != '"':
		return out
	case n.values == nil:
		return r.literal(part{kind: literal, node: n, words: n.names, high: len(n.names.sorted), n: p.n}.with(p.next), b, out)
	}
	v := part{kind: value, node: n.values}.with(part{kind: listed, node: n}.with(p.next))
	return append(out, part{kind: inside}.with(part{kind: literal, words: colon, high: 1}.with(part{kind: blank}.with(v))))
}

// item reads the end of an array, or its next item.
func (r *reader) item(p *part, b byte, out []*part) []*part {
	n := p.node
	if b == ']' {
		if p.n >= n.least {
			out = append(out, p.next)
		}
		return out
	}
	if p.n == n.most {
		return out
	}
	count := p.n + 1
	if n.most < 0 { // there is no need to count on
		count = min(count, max(n.least, 1))
	}
	x := part{kind: value, node: n.items}.with(p.at(count))
	switch {
	case p.n == 0:
		return r.read(x, b, out)
	case b == ',':
		return append(out, part{kind: blank}.with(x))
	}
	return out
}

// ends reports whether the text may end here.
func (p *part) ends() bool {
	for ; p != nil; p = p.next {
		if p.kind != blank && !(p.kind == digits && numberEnds(p.n)) {
			return false
		}
	}
	return true
}
