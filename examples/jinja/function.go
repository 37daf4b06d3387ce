package jinja

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// functions that every template can call. transformers adds raise_exception and strftime_now.
var functions = map[string]function{
	"dict": func(_ *scope, a args) (any, error) { return named(a) },
	"namespace": func(_ *scope, a args) (any, error) {
		d, err := named(a)
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
func named(a args) (*Dict, error) {
	d := new(Dict)
	for _, value := range a.values {
		from, ok := value.(*Dict)
		if !ok {
			return nil, fmt.Errorf("needs a dictionary, not %s", describe(value))
		}
		for _, key := range from.keys {
			d.Set(key, from.values[key])
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
	return out, nil
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
