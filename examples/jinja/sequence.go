package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// The filters that choose from lists, order them, or change each item.

// selected keeps the items for which a test holds (or does not), of the item itself or of an attribute.
func selected(attribute, keep bool) function {
	return func(s *scope, a args) (any, error) {
		if len(a.values) == 0 || attribute && len(a.values) < 2 {
			return nil, fmt.Errorf("an argument is missing")
		}
		items, err := s.iterate(a.values[0])
		if err != nil {
			return nil, err
		}
		rest := a.values[1:]
		var field any
		if attribute {
			field, rest = rest[0], rest[1:]
		}
		holds, err := testOf(rest)
		if err != nil {
			return nil, err
		}
		var out []any
		for _, item := range items {
			value := item
			if attribute {
				if value, err = s.path(item, field); err != nil {
					return nil, err
				}
			}
			ok, err := holds(s, value)
			if err != nil {
				return nil, err
			}
			if ok == keep {
				out = append(out, item)
			}
		}
		return &generator{out}, s.Step(len(items))
	}
}

// testOf makes a predicate of a test's name and its arguments; without a name it asks for truth.
func testOf(rest []any) (func(*scope, any) (bool, error), error) {
	if len(rest) == 0 {
		return func(_ *scope, v any) (bool, error) { return truth(v), nil }, nil
	}
	name, _ := rest[0].(string)
	f, ok := tests[name]
	if !ok {
		return nil, fmt.Errorf("there is no test %s", repr(rest[0]))
	}
	return func(s *scope, v any) (bool, error) {
		value, err := s.builtin(s, f, args{values: append([]any{v}, rest[1:]...)})
		return truth(value), err
	}, nil
}

// mapped takes an attribute of each item, or applies a filter to it.
func mapped(s *scope, a args) (any, error) {
	if len(a.values) == 0 {
		return nil, fmt.Errorf("needs a value")
	}
	items, err := s.iterate(a.values[0])
	if err != nil {
		return nil, err
	}
	var otherwise []any
	if value, ok := a.named["default"]; ok {
		otherwise = []any{value}
	}
	each := func(item any) (any, error) { return s.path(item, a.named["attribute"], otherwise...) }
	if _, ok := a.named["attribute"]; !ok {
		if len(a.values) < 2 {
			return nil, fmt.Errorf("needs a filter or an attribute")
		}
		name, _ := a.values[1].(string)
		f, ok := filters[name]
		if !ok {
			return nil, fmt.Errorf("there is no filter %s", repr(a.values[1]))
		}
		each = func(item any) (any, error) {
			return s.builtin(s, f, args{values: append([]any{item}, a.values[2:]...), named: a.named})
		}
	}
	out := make([]any, len(items))
	for i, item := range items {
		if out[i], err = each(item); err != nil {
			return nil, err
		}
	}
	return &generator{out}, s.Step(len(items))
}

func sorted(s *scope, a args) (any, error) {
	v, err := a.bind("value", "reverse?", "case_sensitive?", "attribute?")
	if err != nil {
		return nil, err
	}
	items, err := s.iterate(v[0])
	if err != nil {
		return nil, err
	}
	return s.sortItems(items, truth(or(v[2], false)), truth(or(v[1], false)), func(item any) (any, error) {
		return s.keyOf(item, or(v[3], nil))
	})
}

// keyOf is an attribute of an item, a tuple of several between commas, or without a name the item itself.
func (r *rendering) keyOf(item, field any) (any, error) {
	names, ok := field.(string)
	switch {
	case field == nil:
		return item, nil
	case !ok || !strings.Contains(names, ","):
		return r.path(item, field)
	}
	var out tuple
	for name := range strings.SplitSeq(names, ",") {
		value, err := r.path(item, name)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	return out, nil
}

// grouped gives, for each value of an attribute in order, a tuple of the value and the items that have it.
func grouped(s *scope, a args) (any, error) {
	v, err := a.bind("value", "attribute", "default?", "case_sensitive?")
	if err != nil {
		return nil, err
	}
	items, err := s.iterate(v[0])
	if err != nil {
		return nil, err
	}
	var otherwise []any
	if value := or(v[2], nil); value != nil {
		otherwise = []any{value}
	}
	cased := truth(or(v[3], false))
	key := func(item any) (any, error) {
		k, err := s.path(item, v[1], otherwise...)
		if err != nil {
			return nil, err
		}
		return s.caseless(k, cased)
	}
	all, err := s.sortItems(items, true, false, key)
	if err != nil {
		return nil, err
	}
	out := []any{}
	var last any
	for i, item := range all.([]any) {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		same := false
		if i > 0 {
			if same, err = s.equal(k, last); err != nil {
				return nil, err
			}
		}
		if !same {
			shown, err := s.path(item, v[1], otherwise...) // that of the first item, with its case
			if err != nil {
				return nil, err
			}
			out = append(out, group{shown, []any{}})
		}
		g := out[len(out)-1].(group)
		g[1] = append(g[1].([]any), item)
		last = k
	}
	return out, s.Step(len(items))
}

// batched cuts a list into lists of so many items; the last one may be filled up.
func batched(s *scope, a args) (any, error) {
	v, err := a.bind("value", "linecount", "fill_with?")
	if err != nil {
		return nil, err
	}
	items, err := s.iterate(v[0])
	if err != nil {
		return nil, err
	}
	n, err := asInt(v[1])
	if err != nil || n < 1 {
		return nil, fmt.Errorf("needs a number of items, not %s", repr(v[1]))
	}
	var out []any
	for len(items) > 0 {
		part := slices.Clone(items[:min(n, len(items))])
		items = items[len(part):]
		if fill := or(v[2], nil); fill != nil && len(part) < n {
			more, err := repeat([]any{fill}, n-len(part))
			if err != nil {
				return nil, err
			}
			part = append(part, more.([]any)...)
		}
		if err := s.made(part); err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	return &generator{out}, nil
}

// sliced cuts a list into so many lists, the first of which have one item more; the others may be filled up.
func sliced(s *scope, a args) (any, error) {
	v, err := a.bind("value", "slices", "fill_with?")
	if err != nil {
		return nil, err
	}
	items, err := s.iterate(v[0])
	if err != nil {
		return nil, err
	}
	n, err := asInt(v[1])
	if err != nil || n < 1 || n > maxItems {
		return nil, fmt.Errorf("needs a number of lists, not %s", repr(v[1]))
	}
	out := make([]any, n)
	each, more := len(items)/n, len(items)%n
	for i := range out {
		size := each
		if i < more {
			size++
		}
		part := slices.Clone(items[:size])
		if fill := or(v[2], nil); fill != nil && i >= more {
			part = append(part, fill)
		}
		out[i], items = part, items[size:]
	}
	return &generator{out}, s.made(out)
}

// sortItems orders by a key; letters rank without case unless that is asked for.
func (r *rendering) sortItems(items []any, cased, descending bool, key func(any) (any, error)) (any, error) {
	type keyed struct{ key, item any }
	all := make([]keyed, len(items))
	for i, item := range items {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		if k, err = r.caseless(k, cased); err != nil {
			return nil, err
		}
		all[i] = keyed{k, item}
	}
	var failed error
	slices.SortStableFunc(all, func(x, y keyed) int {
		if failed != nil {
			return 0
		}
		c, err := r.order(x.key, y.key)
		failed = err
		if descending {
			return -c
		}
		return c
	})
	out := make([]any, len(all))
	for i, k := range all {
		out[i] = k.item
	}
	return out, failed
}

// caseless gives the key by which a value ranks: a text, or those of a tuple, without its case unless that counts.
func (r *rendering) caseless(value any, cased bool) (any, error) {
	if cased {
		return value, nil
	}
	switch k := value.(type) {
	case string:
		return lower(k), r.read(k)
	case tuple:
		out := make(tuple, len(k))
		for i, item := range k {
			var err error
			if out[i], err = r.caseless(item, false); err != nil {
				return nil, err
			}
		}
		return out, r.Step(len(k))
	}
	return value, nil
}

func extreme(sign int) function {
	return func(s *scope, a args) (any, error) {
		v, err := a.bind("value", "case_sensitive?", "attribute?")
		if err != nil {
			return nil, err
		}
		items, err := s.iterate(v[0])
		if err != nil || len(items) == 0 {
			return Undefined{}, err
		}
		all, err := s.sortItems(items, truth(or(v[1], false)), sign > 0, func(item any) (any, error) {
			return s.keyOf(item, or(v[2], nil))
		})
		if err != nil {
			return nil, err
		}
		return all.([]any)[0], nil
	}
}

func unique(s *scope, a args) (any, error) {
	v, err := a.bind("value", "case_sensitive?", "attribute?")
	if err != nil {
		return nil, err
	}
	items, err := s.iterate(v[0])
	if err != nil {
		return nil, err
	}
	seen, out := []any{}, []any{}
	for _, item := range items {
		key, err := s.keyOf(item, or(v[2], nil))
		if err != nil {
			return nil, err
		}
		if key, err = s.caseless(key, truth(or(v[1], false))); err != nil {
			return nil, err
		}
		old, err := s.contains(seen, key)
		if err != nil {
			return nil, err
		}
		if old {
			continue
		}
		seen, out = append(seen, key), append(out, item)
	}
	return &generator{out}, nil
}
