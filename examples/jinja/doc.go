// Package jinja renders chat templates: the part of Jinja 2 that the templates of hub models use,
// with the settings and the additional functions that transformers gives them.
//
//	t, err := jinja.Parse("{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n{% endfor %}")
//	text, err := t.Render(jinja.Vars{"messages": messages})
//
// Values are nil, bool, int, float64, string, []any and *Dict, which keeps the order of its keys;
// FromJSON makes them. Templates also have tuples, and the generators of filters such as map and select, which give their items once, have no length
// and are true, as in Python. A template can neither change its values nor reach files, other
// templates or Go: include, import and extends are refused. So are, by name, the filters filesizeformat, pprint, random, urlize and xmlattr, autoescape,
// lipsum, what would print an address in memory, and attributes of Python's values that are of no use in a template. A template from a stranger ends: its size, the chains in it,
// and the steps and memory of a rendering are bounded (budget.ErrLimit). Integers beyond 64 bits are refused.
package jinja
