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
		items, err := iterate(a.values[0])
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
		out := []any{}
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
		return out, s.Step(len(items))
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
	items, err := iterate(a.values[0])
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
	return out, s.Step(len(items))
}

func sorted(s *scope, a args) (any, error) {
	v, err := a.bind("value", "reverse?", "case_sensitive?", "attribute?")
	if err != nil {
		return nil, err
	}
	items, err := iterate(v[0])
	if err != nil {
		return nil, err
	}
	return s.sortItems(items, truth(or(v[2], false)), truth(or(v[1], false)), func(item any) (any, error) {
		if field := or(v[3], nil); field != nil {
			return s.path(item, field)
		}
		return item, nil
	})
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
		if s, ok := k.(string); ok && !cased {
			k = strings.ToLower(s)
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

func extreme(sign int) function {
	return func(s *scope, a args) (any, error) {
		v, err := a.bind("value", "case_sensitive?", "attribute?")
		if err != nil {
			return nil, err
		}
		items, err := iterate(v[0])
		if err != nil || len(items) == 0 {
			return Undefined{}, err
		}
		all, err := s.sortItems(items, truth(or(v[1], false)), sign > 0, func(item any) (any, error) {
			if field := or(v[2], nil); field != nil {
				return s.path(item, field)
			}
			return item, nil
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
	items, err := iterate(v[0])
	if err != nil {
		return nil, err
	}
	seen, out := []any{}, []any{}
	for _, item := range items {
		key := item
		if field := or(v[2], nil); field != nil {
			if key, err = s.path(item, field); err != nil {
				return nil, err
			}
		}
		if text, ok := key.(string); ok && !truth(or(v[1], false)) {
			key = strings.ToLower(text)
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
	return out, nil
}
