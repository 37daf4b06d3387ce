package jinja

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// functions that every template can call. transformers adds raise_exception and strftime_now.
var functions = map[string]function{
	"cycler": func(_ *scope, a args) (any, error) {
		if len(a.values) == 0 || len(a.named) > 0 {
			return nil, fmt.Errorf("cycler takes one value or more")
		}
		return &cycle{items: a.values}, nil
	},
	"joiner": func(s *scope, a args) (any, error) {
		v, err := a.bind("sep?")
		if err != nil {
			return nil, err
		}
		used := false
		return function(func(*scope, args) (any, error) {
			if used {
				return or(v[0], ", "), nil
			}
			used = true
			return "", nil
		}), nil
	},
	"dict": func(s *scope, a args) (any, error) { return s.named(a) },
	"namespace": func(s *scope, a args) (any, error) {
		d, err := s.named(a)
		if err != nil {
			return nil, err
		}
		return &namespace{*d}, nil
	},
	"raise_exception": func(s *scope, a args) (any, error) {
		message, err := a.one()
		if err != nil {
			return nil, err
		}
		text, err := s.str(message)
		if err != nil {
			return nil, err
		}
		return nil, &Raised{text}
	},
	"range":        counting,
	"strftime_now": clock,
}

// named makes a dictionary of a call's named arguments, and of a dictionary before them.
func (r *rendering) named(a args) (*Dict, error) {
	d := new(Dict)
	if err := r.entries(len(a.named)); err != nil {
		return nil, err
	}
	for _, value := range a.values {
		from, ok := value.(*Dict)
		if ok {
			if err := r.entries(len(from.keys)); err != nil {
				return nil, err
			}
			for _, key := range from.keys {
				if err := r.put(d, from.key(key), from.values[key]); err != nil {
					return nil, err
				}
			}
			continue
		}
		pairs, err := r.iterate(value)
		if err != nil {
			return nil, err
		}
		if err := r.entries(len(pairs)); err != nil {
			return nil, err
		}
		for _, pair := range pairs {
			p, err := r.iterate(pair)
			if err != nil || len(p) != 2 {
				return nil, fmt.Errorf("needs a dictionary or pairs, not %s", describe(value))
			}
			if err := r.put(d, p[0], p[1]); err != nil {
				return nil, err
			}
		}
	}
	for _, key := range a.order {
		d.Set(key, a.named[key])
	}
	return d, nil
}

// maxRange is the longest range, as in Jinja's sandbox.
const maxRange = 100_000

func counting(_ *scope, a args) (any, error) {
	v, err := a.bind("start", "stop?", "step?")
	if err != nil {
		return nil, err
	}
	from, err := asInt(v[0])
	if err != nil {
		return nil, err
	}
	to, err := asInt(or(v[1], from))
	if err != nil {
		return nil, err
	}
	if _, missing := v[1].(absent); missing {
		from = 0
	}
	step, err := asInt(or(v[2], 1))
	if err != nil || step == 0 {
		return nil, fmt.Errorf("range steps by %s", repr(v[2]))
	}
	out := []any{}
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if len(out) == maxRange {
			return nil, fmt.Errorf("range of more than %d numbers", maxRange)
		}
		out = append(out, i)
		if i > 0 && step > math.MaxInt-i || i < 0 && step < math.MinInt-i {
			break // the next number is beyond any end
		}
	}
	name := fmt.Sprintf("range(%d, %d)", from, to)
	if step != 1 {
		name = fmt.Sprintf("range(%d, %d, %d)", from, to, step)
	}
	return view{name, out}, nil
}

// cycle gives its values one after another, again and again.
type cycle struct {
	items []any
	at    int
}

func (c *cycle) attribute(name string) any {
	switch name {
	case "current":
		return c.items[c.at]
	case "next":
		return function(func(*scope, args) (any, error) {
			now := c.items[c.at]
			c.at = (c.at + 1) % len(c.items)
			return now, nil
		})
	case "reset":
		return function(func(*scope, args) (any, error) {
			c.at = 0
			return nil, nil
		})
	}
	return Undefined{name}
}

// formats are the directives of strftime in the words of package time.
var formats = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'j': "002",
	'm': "01", 'M': "04", 'p': "PM", 'S': "05", 'y': "06", 'Y': "2006", 'z': "-0700", 'Z': "MST",
	'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04",
}

func clock(s *scope, a args) (any, error) {
	value, err := a.one()
	if err != nil {
		return nil, err
	}
	format, err := asText(value)
	if err != nil {
		return nil, err
	}
	return strftime(s.now(), format)
}

func strftime(now time.Time, format string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		plain := format[i] == '-' && i+1 < len(format) // without the leading zero
		if plain {
			i++
		}
		if format[i] == '%' {
			out.WriteByte('%')
			continue
		}
		layout, ok := formats[format[i]]
		if !ok {
			return "", fmt.Errorf("strftime knows no %%%c", format[i])
		}
		text := now.Format(layout)
		if plain {
			if text = strings.TrimLeft(text, "0 "); text == "" {
				text = "0"
			}
		}
		out.WriteString(text)
	}
	return out.String(), nil
}
