package tokenizer

import (
	"sync"
	"unicode/utf8"

	"github.com/goascend/cann/examples/budget"
)

// merger is the BPE model: it joins the bytes of a word, or its characters, always the pair with the lowest rank
// and of those the leftmost, until no pair of the table is left.
// (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016.)
type merger struct {
	words      map[string]int32 // token's bytes → id
	single     [256]int32       // id of each byte, or -1
	characters *characters      // nil for a model over bytes
	users      *lexicon         // tokens of the user of a model of SentencePiece, which are not cut; nil for none
	merges     map[[2]int32]merged
	whole      bool // a word of the vocabulary is taken at once, without merging ("ignore_merges")

	mu    sync.RWMutex
	known map[string][]int32 // words that came before
}

type merged struct{ rank, id int32 }

// A text repeats its words, so their ids are kept. The bounds keep a stream of random words from
// growing the table, and long words, which hardly repeat, out of it.
const (
	knownWords  = 1 << 16
	knownLength = 64
)

// append adds the ids of a word. Bytes that the vocabulary lacks are left out, as tokenizers does without an unknown token.
func (m *merger) append(ids []int32, word string, b *budget.Budget) ([]int32, error) {
	if err := b.Step(mergeSteps * len(word)); err != nil {
		return nil, err
	}
	if len(word) > knownLength {
		return m.merge(ids, word, b)
	}
	m.mu.RLock()
	found, ok := m.known[word]
	m.mu.RUnlock()
	if ok {
		return append(ids, found...), nil
	}
	start := len(ids)
	ids, err := m.merge(ids, word, b)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	if len(m.known) >= knownWords {
		clear(m.known)
	}
	m.known[string([]byte(word))] = append([]int32(nil), ids[start:]...) // a copy: the word is a part of a larger text
	m.mu.Unlock()
	return ids, nil
}

// merge works on the symbols as a doubly linked list, with the mergeable pairs in a heap, so that a word
// of n bytes takes n log n steps: a line of a million spaces is one word.
func (m *merger) merge(ids []int32, word string, b *budget.Budget) ([]int32, error) {
	if m.whole {
		if id, ok := m.words[word]; ok {
			return append(ids, id), nil
		}
	}
	list := make([]symbol, 0, len(word))
	add := func(id int32) {
		n := int32(len(list))
		list = append(list, symbol{id: id, before: n - 1, behind: n + 1})
	}
	if m.characters != nil {
		unknown := false
		end := 0 // of a token of the user
		for at, r := range word {
			if at < end {
				continue
			}
			if m.users != nil {
				id := int32(-1)
				if err := m.users.prefixes(word[at:], b, func(e entry) { id, end = e.id, at+len(e.text) }); err != nil {
					return nil, err
				}
				if id >= 0 {
					add(id)
					list[len(list)-1].frozen = true
					unknown = false
					continue
				}
			}
			character := word[at:][:utf8.RuneLen(r)]
			if id, ok := m.words[character]; ok {
				add(id)
				unknown = false
			} else {
				unknown = m.characters.ids(character, unknown, add)
			}
		}
	} else {
		for i := range len(word) {
			if id := m.single[word[i]]; id >= 0 {
				add(id)
			}
		}
	}
	var pairs pairHeap
	offer := func(left int32) {
		if left < 0 || int(list[left].behind) >= len(list) || list[left].frozen || list[list[left].behind].frozen {
			return
		}
		key := [2]int32{list[left].id, list[list[left].behind].id}
		if to, ok := m.merges[key]; ok {
			pairs.push(pair{to, left, key})
		}
	}
	for i := range list {
		offer(int32(i))
	}
	for len(pairs) > 0 {
		p := pairs.pop()
		left := &list[p.left]
		if left.id != p.key[0] || int(left.behind) >= len(list) || list[left.behind].id != p.key[1] {
			continue // one of the two was merged with another neighbour meanwhile
		}
		right := &list[left.behind]
		left.id, right.id = p.id, gone
		left.behind = right.behind
		if int(left.behind) < len(list) {
			list[left.behind].before = p.left
		}
		offer(left.before)
		offer(p.left)
	}
	for _, s := range list {
		if s.id != gone {
			ids = append(ids, s.id)
		}
	}
	return ids, nil
}

const gone = -1

type symbol struct {
	id, before, behind int32
	frozen             bool // it is joined with no other
}

type pair struct {
	merged
	left int32
	key  [2]int32
}

func (p pair) less(q pair) bool { return p.rank < q.rank || p.rank == q.rank && p.left < q.left }

// pairHeap has the next pair to merge first. Package container/heap would allocate each of them.
type pairHeap []pair

func (h *pairHeap) push(p pair) {
	all := append(*h, p)
	*h = all
	for i := len(all) - 1; i > 0 && all[i].less(all[(i-1)/2]); i = (i - 1) / 2 {
		all[i], all[(i-1)/2] = all[(i-1)/2], all[i]
	}
}

func (h *pairHeap) pop() pair {
	all := *h
	first, last := all[0], len(all)-1
	all[0], all = all[last], all[:last]
	*h = all
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(all); child++ {
			if all[child].less(all[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		all[i], all[least] = all[least], all[i]
		i = least
	}
}
