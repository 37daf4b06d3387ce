"""Makes features.json: a line for each feature of Jinja that templates use, and what Jinja makes of it with the settings of transformers.

    python make.py > features.json

A template that is an error there has "error" in the place of "text": the type of the exception.
"""
import json, re

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARS = {
    "n": 5, "f": 2.5, "s": "Hello World", "u": "Größe 世界 😀", "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "e": [], "z": "", "none": None, "t": True,
    "d": {"z": 1, "a": {"b": [1, 2]}, "items": 7, "k": None}, "html": "<a href=\"x\">T&C's</a> y", "lines": "one\ntwo\n\nthree", "num": "42", "big": 9007199254740993,
    "m": [{"role": "system", "content": "be good"}, {"role": "user", "content": "hi", "n": 2}, {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1, "y": [True, None, 1.5, "é<"]}}}]}, {"role": "tool", "content": "3", "n": 1}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}],
    "tree": [{"v": 1, "c": [{"v": 2, "c": [{"v": 3, "c": []}]}, {"v": 4, "c": []}]}],
}

FILTERS = r"""
{{ -3|abs }} {{ n|abs }} {{ -2.5|abs }}
{{ m|map(attribute='role')|join(',') }}
{{ m|map(attribute='n', default=0)|list }}
{{ m|map(attribute='content.0.type', default='-')|list }}
{{ w|map('upper')|join }} {{ w|map('replace', 'a', 'q')|list }}
{{ m|selectattr('role', 'equalto', 'user')|list|length }} {{ m|selectattr('n')|list|length }} {{ m|rejectattr('n', 'defined')|map(attribute='role')|list }}
{{ m|selectattr('role', 'in', ['user', 'tool'])|map(attribute='role')|list }}
{{ l|select('odd')|list }} {{ l|reject('odd')|list }} {{ l|select('gt', 1)|list }} {{ [0, 1, '', 'x']|select|list }} {{ [0, 1, '']|reject|list }}
{{ l|batch(2)|list }} {{ l|batch(2, 'x')|list }} {{ [1,2,3,4,5]|batch(3)|map('sum')|list }}
{{ [1,2,3,4,5,6,7]|slice(3)|list }} {{ [1,2,3,4,5,6,7]|slice(3, 'x')|list }}
{{ s|capitalize }} {{ 'ÄB cD'|capitalize }}
{{ s|center(21) }}| {{ 'ab'|center(5) }}| {{ 'ab'|center(3) }}|
{{ missing|default('x') }} {{ z|default('x') }}| {{ z|default('x', true) }} {{ none|default('x') }} {{ none|d('x', boolean=true) }}
{{ d|dictsort }} {{ {'B':1,'a':3,'C':2}|dictsort }} {{ {'B':1,'a':3,'C':2}|dictsort(true) }} {{ {'B':1,'a':3}|dictsort(by='value') }} {{ {'B':1,'a':3}|dictsort(reverse=true) }}
{{ html|e }} {{ html|escape }}
{{ 123456|filesizeformat }} {{ 1|filesizeformat }} {{ 123456789|filesizeformat(true) }} {{ 0|filesizeformat }}
{{ l|first }} {{ 'abc'|first }} {{ e|first }}| {{ l|last }} {{ 'abc'|last }} {{ e|last }}|
{{ '3.7'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 3|float }} {{ none|float }}
{{ '%s is %d years, %.2f' | format('a', 3, 1.234) }} {{ '%05d|%-5s|%5s|%x|%X|%o|%e|%g|%c|%%|%r' | format(42, 'a', 'b', 255, 255, 8, 12345.678, 0.0001, 'q', 'z') }}
{{ '%(a)s-%(b)03d' | format(a='x', b=7) }}
{% for g in m|groupby('role') %}{{ g.grouper }}:{{ g.list|length }} {% endfor %}{% for k, v in m|groupby('n', default=0) %}{{ k }}={{ v|map(attribute='role')|join('+') }} {% endfor %}
{{ lines|indent }} {{ lines|indent(2, true) }} {{ lines|indent(2, blank=true) }} {{ lines|indent('> ') }}
{{ '42'|int }} {{ '4.9'|int }} {{ 'x'|int }} {{ 'x'|int(-1) }} {{ 3.9|int }} {{ -3.9|int }} {{ '0x1A'|int(base=16) }} {{ '1010'|int(0, 2) }} {{ '0b11'|int(base=0) }} {{ true|int }} {{ none|int }}
{{ [1,'a',none]|join('-') }} {{ 'abc'|join(',') }} {{ m[:2]|join(', ', attribute='role') }} {{ e|join('x') }}|
{{ 'abc'|length }} {{ u|length }} {{ d|count }} {{ l|length }} {{ z|length }}
{{ 'abc'|list }} {{ d|list }} {{ range(3)|list }}
{{ s|lower }} {{ s|upper }} {{ u|upper }} {{ 'ß İ'|lower }} {{ 'ß'|upper }}
{{ l|max }} {{ l|min }} {{ w|max }} {{ w|min(case_sensitive=true) }} {{ w|max(true) }} {{ e|max }}| {{ m[1:4]|selectattr('n')|max(attribute='n') }}
{{ [1,2]|pprint }} {{ 'a'|pprint }}
{{ [1]|random }}
{{ 'aXbX'|replace('X', '-') }} {{ 'aXbX'|replace('X', '-', 1) }} {{ 'abc'|replace('', '-') }} {{ 5|replace('5', '6') }}
{{ 'abc'|reverse }} {{ l|reverse|list }} {{ u|reverse }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.567|round(2) }} {{ 2.1|round(method='ceil') }} {{ 2.9|round(0, 'floor') }} {{ 25|round(-1) }} {{ 42|round }} {{ -2.5|round }} {{ 1234.567|round(-2) }} {{ 0.5|round|int }}
{{ html|safe }}
{{ l|sort }} {{ l|sort(reverse=true) }} {{ w|sort }} {{ w|sort(case_sensitive=true) }} {{ m[1:4]|sort(attribute='role')|map(attribute='role')|list }} {{ tree[0].c|sort(attribute='v,c', reverse=true)|map(attribute='v')|list }}
{{ 5|string ~ 1.0|string ~ true|string ~ none|string }} {{ [1]|string|length }}
{{ html|striptags }} {{ ' <b>x</b>  <!-- c --> y '|striptags }}|
{{ l|sum }} {{ [0.1, 0.2]|sum }} {{ m|sum(attribute='n', start=1) if false else 'skip' }} {{ [{'a':1},{'a':2}]|sum(attribute='a') }} {{ [[1],[2]]|sum(start=[]) }} {{ e|sum }}
{{ "hello world it's o'neil-x (ab) [cd]"|title }} {{ 'ÄB çd'|title }}
{{ ' x '|trim }}| {{ 'xxaxx'|trim('x') }} {{ '\n a\t'|trim }}|
{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, false, '..', 0) }} {{ 'foo bar'|truncate(5, leeway=5) }}
{{ ['b','a','B','b']|unique|list }} {{ ['b','a','B','b']|unique(true)|list }} {{ m|unique(attribute='role')|map(attribute='role')|list }}
{{ 'a b&c/d?é'|urlencode }} {{ {'a b': 'c&d', 'e': 1}|urlencode }} {{ [('x', 1), ('y', 'z')]|urlencode }}
{{ 'see https://example.org/x ok'|urlize }}
{{ s|wordcount }} {{ 'a-b c_d, e'|wordcount }}
{{ 'aaa bbb ccc ddd'|wordwrap(7) }} {{ 'aaaaaaaaaa bb'|wordwrap(4) }} {{ 'aaaaaaaaaa bb'|wordwrap(4, false) }} {{ 'a b\nc d e'|wordwrap(3, wrapstring='|') }}
{{ {'class': 'a b', 'id': none, 'x': 1, 'q': '<'}|xmlattr }} {{ {'a': 1}|xmlattr(false) }} {{ {}|xmlattr }}|
{{ d|items|list }} {{ missing|items|list }}
{{ d|attr('items') is callable }} {{ d|attr('z') is defined }}
{{ d|tojson }} {{ d|tojson(indent=2) }} {{ m[2]|tojson }} {{ u|tojson }} {{ html|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ {'b':1,'a':2}|tojson(sort_keys=true) }} {{ [1, 2.0, 1e20, none, true]|tojson(separators=(',', ':')) }} {{ [[], {}]|tojson(indent=4) }}
{{ 'a\u2028\\ \"q\" \x7f\t'|tojson }} {{ 1.5|tojson }} {{ 1e100|tojson }} {{ 'x'|tojson|length }}
{{ l | map('string') | join('/') | upper | replace('/', '') | int + 1 }}
{% filter upper %}abc {{ s }}{% endfilter %} {% filter replace('a', 'b')|upper %}aac{% endfilter %}
{{ [1, [2, 3]]|map('string')|list }} {{ ['a,b']|map('split', ',')|list if false else 1 }}
{{ missing|length }} {{ missing|list }} {{ missing|upper }}| {{ missing|join }}|
{{ 'a'|ljust(3) }}
{{ (1, 2)|list }} {{ (1,)|first }} {{ ()|length }} {{ (1, 2) }} {{ (1,) }} {{ () }}
{{ '%s' % 'a' }} {{ '%s-%s' % ('a', 2) }} {{ '%d%%' % 50 }} {{ '%.3f' % f }} {{ '%r' % 'q' }} {{ '%(x)s' % {'x': 3} }} {{ '%5s|%-5s|' % ('a', 'b') }} {{ '%+d % d %#x' % (3, 4, 255) }}
"""

GENERATORS = r"""
{{ 'y' if l|select('gt', 9) else 'n' }}
{{ l|map('string')|length }}
{% set x = l|map('string') %}{{ x|join }}-{{ x|join }}
{% set x = l|select %}{% for a in x %}{{ a }}{% endfor %}{% for a in x %}{{ a }}{% endfor %}
{{ (l|map('string'))[0] }}|
{{ l|map('string')|first }} {{ l|select('gt', 1)|list|last }}
{{ l|map('string')|last }}
{{ l|map('string') }}
{{ l|map('string')|tojson }}
{{ l|map('string') + [1] }}
{{ l|select is iterable }} {{ l|select is sequence }} {{ l|map('string') is defined }}
{{ l|unique|length }}
{{ l|reverse|list }} {{ l|reverse|first }}
{{ l|reverse|length }}
{{ l|batch(2)|length }}
{{ d.items()[0] }}
{{ d.keys()|tojson }}
{{ d.keys() + d.keys() }}
{{ (d.items()|list)[0][1] }}
{{ 3 in l|map('abs') }}
{{ m|map(attribute='role')|unique|sort|join(' ') }} {{ l|sort|reverse|join }}
{% if m|selectattr('role', 'equalto', 'none')|list %}a{% else %}b{% endif %}
{{ l|map('abs')|sum }} {{ l|map('abs')|max }} {{ w|map('upper')|sort }} {{ l|select('odd')|map('string')|join }}
{{ '<'|e|e }} {{ '<'|safe|e }} {{ ('<'|e)|length }} {{ '<'|e is escaped }} {{ ('<'|e) ~ '<' }} {{ ['<'|e] }}
{{ ('<'|e)|upper }}
{{ ('<'|e) + '<' }}
{{ {'a': {1: 2, none: 3, true: 4, 1.5: 5}}|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ {[1]: 2} }}
{{ (1, [2])|tojson }} {{ (1, 2) in [(1, 2)] }} {{ [1] == (1,) }} {{ (1, 2) < (1, 3) }} {{ () or 'e' }} {{ (1, 2, 3)[-1] }} {{ (1, 2)|join }} {{ (1, 2) is sequence }} {{ (1, 2) is iterable }} {{ [(1, 'a')]|map('first')|list }}
{{ [1] < (2,) }}
{{ range(3) == [0, 1, 2] }} {{ 2 in range(3) }} {{ range(3)|list == [0, 1, 2] }} {{ range(2) is sequence }} {{ d.keys() is sequence }}
{{ range(5)[1:3] }}
{{ s['upper']() }} {{ d['get']('z') }} {{ l['index'](1) }}
{{ '%s' }} {{ '%s %s' % (1, (2, 3)) }} {{ '%s' % [1] }} {{ '%s' % ((1, 2),) }} {{ '%s' % {'a': 1} }}
{{ '%s' % (1, 2) }}
{{ '%s %s' % 1 }}
{{ '%d' % 'a' }}
{{ '{}'.format(1, 2) }} {{ '{}{}'.format('a', none) }} {{ '{a.b}'.format(a={'b': 1}) if false else 1 }}
{{ '{} {}'.format(1) }}
{{ '{:d}'.format('a') }}
{{ '{:5}|{:<5}|{:05.1f}|{:>+6}|{:^6}|{!s:>4}'.format(12, 3, 2.25, 7, 8, none) }} {{ '{:,.2f}'.format(1234567.891) }} {{ '{:_}'.format(1234567) }} {{ '{:b} {:o} {:X} {:#x} {:g} {:G}'.format(5, 8, 255, 255, 0.00001, 1e20) }} {{ '{:.3}'.format('abcdef') }} {{ '{}'.format(true) }} {{ '{:.0%}'.format(0.257) }}
{{ '%5.1f|%-8.3e|%+d|%05d|%.3s|%5s|%%' % (2.25, 12345.6789, 5, -42, 'abcdef', true) }} {{ '%g %g %g %G' % (100000, 1000000, 0.00001, 1e-10) }} {{ '%i %u' % (3.9, -2) }} {{ '%c%c' % (65, 'b') }} {{ '%-5d|%5d|' % (3, -3) }}
{{ 'ΑΣ ΟΔΟΣ'|lower }} {{ 'straße'|upper }} {{ 'ǆ'|title }} {{ 'ŉ'|upper }} {{ 'ﬁ'|capitalize }} {{ 'İSTANBUL'.lower() }} {{ 'ß'.title() }} {{ 'ǆa'.capitalize() }}
{{ 'abcde f'.splitlines() }} {{ 'ab c'.split() }} {{ 'a'.strip() }}
{{ '  leading and trailing  '|wordwrap(9) }}| {{ ''|wordwrap(3) }}| {{ 'aa bb cc'|wordwrap(5)|replace('
', '/') }} {{ 'one  two   three'|wordwrap(8) }}
{{ 'well-known words'|wordwrap(6) }}
{{ '1_000'|int }} {{ '0x1f'|int }} {{ '0x1f'|int(base=0) }} {{ ' 12 '|int }} {{ '1e3'|int }} {{ 'inf'|int }} {{ '1e3'|float }} {{ 'nan'|float }} {{ '-inf'|float }} {{ '1_0.5'|float }} {{ '٣'|int if false else 3 }} {{ '0b1'|int(base=2) }} {{ 'z'|int(base=36) }} {{ '08'|int(base=0, default=-1) }}
{{ 15|round(-1) }} {{ 1e3|int }} {{ 7.5|round|int }} {{ -15|round(-1) }} {{ (-7.5)|round }} {{ 5|round(2) }} {{ 5|round(0, 'ceil') }} {{ true|round }}
{{ d|dictsort(false, 'value') if false else 1 }} {{ {'b': 'x', 'A': 'Y'}|dictsort(by='value', reverse=true) }}
{{ [{'a': {'b': 2}}, {'a': {'b': 1}}]|sort(attribute='a.b')|map(attribute='a.b')|list }} {{ [[2, 'b'], [1, 'a']]|sort(attribute='0')|list }} {{ [[2, 'b'], [1, 'a']]|map(attribute=1)|list }}
{{ [1, 'a']|sort }}
{{ n is sameas none }} {{ true is sameas true }} {{ 1 is sameas true }} {{ none is sameas false }}
{{ '1' }}
{{ 99999999999999999999 }}
{{ 2 ** 64 }}
"""

TESTS = r"""
{{ n is boolean }} {{ t is boolean }} {{ range is callable }} {{ s is callable }} {{ missing is defined }} {{ missing is undefined }} {{ none is none }}
{{ 4 is divisibleby 2 }} {{ 5 is divisibleby(2) }} {{ 4 is even }} {{ 5 is odd }}
{{ n is eq 5 }} {{ n is equalto(5) }} {{ n is == 5 }}
{{ n is ne 4 }} {{ n is gt 4 }} {{ n is ge 5 }} {{ n is lt 6 }} {{ n is le 5 }} {{ n is greaterthan 4 }} {{ n is lessthan 4 }}
{{ s is escaped }} {{ 'trim' is filter }} {{ 'nofilter' is filter }} {{ 'odd' is test }} {{ 'notest' is test }}
{{ t is true }} {{ t is false }} {{ 1 is true }} {{ 0 is false }} {{ n is integer }} {{ f is integer }} {{ f is float }} {{ t is integer }}
{{ 'a' is in ['a'] }} {{ 'a' is in 'abc' }} {{ 'z' is in d }} {{ 1 is not in [2] }}
{{ l is iterable }} {{ n is iterable }} {{ s is iterable }} {{ missing is iterable }} {{ s is string }} {{ n is string }}
{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ '123' is lower }} {{ '' is lower }} {{ d is mapping }} {{ l is mapping }} {{ n is number }} {{ f is number }} {{ t is number }}
{{ none is sameas none }} {{ n is sameas 5 }} {{ d is sameas d }} {{ l is sequence }} {{ d is sequence }} {{ s is sequence }} {{ n is sequence }}
{{ n is not none and n is not string }} {{ not n is string }} {{ n is defined and n }}
{{ m[0].content is string }} {{ m[4].content is iterable and m[4].content is not string }} {{ m[4].content is not mapping }}
"""

EXPRESSIONS = r"""
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ 7 / 7 }} {{ 1e3 }} {{ 5.0 // 2 }} {{ -5.5 % 2 }}
{{ 1_000 }} {{ 0x1f }} {{ 0b101 }} {{ 0o17 }} {{ 1.5e-3 }} {{ 1_0.5 }}
{{ 'a' 'b' }} {{ 'a' "b" ~ 'c' }} {{ 'a' * 3 }} {{ [1] * 2 }} {{ [1] + [2] }} {{ (1,) + (2,) }}
{{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ 'a' != 'b' }} {{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': 1} }} {{ 'a' < 'b' <= 'b' }} {{ (1, 2) == (1, 2) }} {{ (1, 2) == [1, 2] }} {{ [1, 2] < [1, 3] }}
{{ true and false or true }} {{ not true }} {{ 1 and 'x' }} {{ '' or 'y' }} {{ none or e }} {{ not not 1 }} {{ 0 and missing.x }}
{{ True }} {{ False }} {{ None }} {{ true }} {{ none }}
{{ 'x' if t else 'y' }} {{ 'x' if not t }}| {{ 1 if false else 2 if true else 3 }} {{ ('a' if z) is defined }}
{{ 1 in l }} {{ 9 not in l }} {{ 'ell' in s }} {{ 'z' in d }} {{ not 1 in l }} {{ none in [none] }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[:2] }} {{ l[::-1] }} {{ l[::2] }} {{ s[1:4] }} {{ s[-3:] }} {{ s[::-1] }} {{ u[-1] }} {{ l[5] }}| {{ l[-9] }}| {{ (1, 2, 3)[1:] }}
{{ d.z }} {{ d['z'] }} {{ d.a.b[1] }} {{ d['a']['b'][0] }} {{ d.q }}| {{ d['items'] }} {{ d.items() | length }} {{ d.get('q') }} {{ d.get('q', 1) }} {{ l.0 }} {{ m.1.role }} {{ d.a['b'].1 }}
{{ {1: 2}[1] }} {{ {'a': {'b': 1}}.a.b }} {{ {1.5: 'x', none: 'y', true: 'z'}[none] }} {{ {(1, 2): 3}[(1, 2)] }} {{ {'a': 1, 'a': 2} }}
{{ [1, 2,] }} {{ {'a': 1,} }} {{ [] }} {{ {} }} {{ [none, true, 1.0, 'q\'s', "d\"q", 'a\nb'] }} {{ {'k': [1, {'x': none}]} }} {{ 'é\x00\u200b😀' }} {{ ['é\x00\u200b😀\\'] }}
{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 1/3 }} {{ 100000000000000000000.0 }} {{ -0.0 }} {{ 1e22 }} {{ 123456789.123456789 }}
{{ big }} {{ big + 1 }} {{ 9223372036854775807 }} {{ 4611686018427387904 * 1 }}
{{ -n }} {{ +n }} {{ - -n }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ -n|abs }} {{ (-n)|abs }}
{{ n ~ f ~ t ~ none ~ l }} {{ 'a' ~ missing ~ 'b' }}
{{ "a\tb\\n\x41\u00e9\U0001F600\101" }} {{ 'a\
b' }}
{{ missing }}| {{ missing.x }}
{{ d.q.r }}
{{ none.x }}| {{ n.x }}| {{ l.x is defined }} {{ s.x is defined }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 1 / 0 }}
{{ n if n > 3 and n < 7 or false else 0 }} {{ (n > 3) + 1 }} {{ true + true }} {{ true == 1 }}
{{ s.upper }}| {{ s.nothing }}|
{{ l.append }}|
{{ d.__class__ }}|
{{ ''.__class__.__mro__ }}
{{ x|y }}
{{ 1 if }}
{{ l[0:2:1][0] }} {{ [[1, 2], [3]][0][1] }} {{ 'abc'[0] }} {{ 'abc'[5] }}| {{ 'abc'[1:][0] }}
{{ (1 + 2) * 3 }} {{ ((1)) }} {{ (1, (2, 3))[1][0] }}
"""

METHODS = r"""
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ s.capitalize() }} {{ s.swapcase() }} {{ 'ß'.casefold() }}
{{ ' x '.strip() }}| {{ ' x '.lstrip() }}| {{ ' x '.rstrip() }}| {{ 'xxaxx'.strip('x') }} {{ 'abcab'.lstrip('ab') }} {{ 'abcab'.rstrip('ab') }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b  c'.split(none, 1) }} {{ 'a-b-c'.split('-', maxsplit=1) }} {{ 'a</t>b'.split('</t>')[-1] }}
{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('=') }}
{{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb'.splitlines(true) }}
{{ s.startswith('Hell') }} {{ s.endswith('rld') }} {{ s.startswith(('a', 'H')) }} {{ s.startswith('lo', 3) }} {{ s.endswith('lo', 0, 5) }}
{{ s.find('o') }} {{ s.find('q') }} {{ s.rfind('o') }} {{ s.find('o', 5) }} {{ s.index('o') }} {{ s.rindex('o') }} {{ s.count('o') }} {{ u.find('世') }} {{ 'aaaa'.count('aa') }}
{{ s.index('q') }}
{{ s.replace('o', '0') }} {{ s.replace('o', '0', 1) }} {{ 'abc'.replace('', '-') }} {{ 'aaa'.replace('a', 'b', count=2) if false else 1 }}
{{ '-'.join(['a', 'b']) }} {{ ', '.join(w) }} {{ ''.join('abc') }}
{{ 'ab'.center(6, '*') }} {{ 'ab'.ljust(4, '.') }} {{ 'ab'.rjust(4) }}| {{ '7'.zfill(3) }} {{ '-7'.zfill(4) }}
{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'abc'.islower() }} {{ 'ABC'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ '12'.isnumeric() }} {{ '½'.isnumeric() }} {{ '12'.isdecimal() }} {{ 'ab'.isidentifier() }} {{ 'a'.isascii() }} {{ 'a\n'.isprintable() }}
{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'abc'.removeprefix('x') }}
{{ 'a\tb'.expandtabs(4) }} {{ 'abc'.encode() is defined }}
{{ '{} {}'.format('a', 1) }} {{ '{0}-{1}-{0}'.format('a', 'b') }} {{ '{x}'.format(x=3) }} {{ '{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c') }} {{ '{:.2f} {:05d} {:,} {:x} {:e} {:%}'.format(1.234, 42, 1234567, 255, 12345.678, 0.5) }} {{ '{{}}'.format() }} {{ '{0[a]} {0[b]}'.format({'a': 1, 'b': 2}) }} {{ '{!r}'.format('q') }} {{ '{:*^7}'.format('x') }} {{ '{:+d}'.format(3) }}
{{ 'abc'.translate({97: 'x'}) }}
{{ d.keys()|list }} {{ d.values()|list|length }} {{ d.items()|list|first }} {{ d.get('z') }} {{ {'a': 1}.copy() }} {{ d.keys() }} {{ {'a':1}.items() }} {{ {'a':1}.values() }}
{% for k, v in d.items() %}{{ k }}{{ ';' if not loop.last }}{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for k in d.keys() %}{{ k }}{% endfor %} {% for v in d.values() %}{{ v }}{% endfor %}
{{ l.index(1) }} {{ l.count(3) }} {{ [1, 1, 2].count(1) }} {{ l.copy() }} {{ (1, 2, 1).count(1) }} {{ (1, 2).index(2) }}
{{ l.append(1) }}
{{ l.pop() }}
{{ d.update({'a': 1}) }}
{{ d.pop('z') }}
{{ l.sort() }}
{{ (5).bit_length() }} {{ f.is_integer() }} {{ n.real }}
"""

STATEMENTS = r"""
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.cycle('a', 'b') }} {{ loop.changed(x) }} {{ loop.depth }} {{ loop.depth0 }};{% endfor %}
{% for x in e %}x{% else %}empty{% endfor %} {% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.length }}{% else %}none{% endfor %} {% for x in l if x > 9 %}{% else %}none{% endfor %}
{% for x in tree recursive %}{{ x.v }}{% if x.c %}[{{ loop(x.c) }}]{% endif %}{{ loop.depth }}{% endfor %}
{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }} {% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %} {% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in range(3) %}{% for y in range(2) %}{{ x }}{{ y }}{{ loop.index }} {% if y == 0 and x == 1 %}{% break %}{% endif %}{% endfor %}{% endfor %}
{% for x in 'abc' %}{{ x }}-{% endfor %}{% for x in missing %}x{% else %}u{% endfor %}
{% for x in l %}{% set y = x %}{% endfor %}{{ y is defined }} {% set q = 1 %}{% for x in l %}{% set q = x %}{% endfor %}{{ q }}
{% for x in l %}{{ x }}{% endfor %}{{ x is defined }} {{ loop is defined }}
{% for x in none %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% if n > 9 %}a{% elif n > 4 %}b{% else %}c{% endif %} {% if missing %}a{% else %}b{% endif %} {% if z or e %}a{% endif %}
{% if n %}{% if z %}a{% else %}b{% endif %}{% endif %}
{% set x = 1 %}{{ x }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set (a, b) = (3, 4) %}{{ a }}{{ b }} {% set c = 1, 2 %}{{ c }}
{% set x %}block {{ n }}{% endset %}{{ x }}| {% set x | upper %}abc{% endset %}{{ x }} {% set x | replace('a', 'b') | upper %}aac{% endset %}{{ x }}
{% set ns = namespace(a=1) %}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }} {% set ns = namespace({'q': 2}, r=3) %}{{ ns.q }}{{ ns.r }} {% set ns = namespace() %}{% set ns.x = 1 %}{{ ns.x }} {{ ns.missing is defined }}
{% set d.x = 1 %}
{% set x = namespace(y=1) %}{% set x.y, z2 = 5, 6 %}{{ x.y }}{{ z2 }}
{% if true %}{% set inner = 1 %}{% endif %}{{ inner }} {% with %}{% set inner2 = 1 %}{% endwith %}{{ inner2 is defined }}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %} {% with %}x{% endwith %} {% set v = 1 %}{% with v = 2, w2 = v %}{{ v }}{{ w2 }}{% endwith %}{{ v }}
{% macro f(a, *c) %}{% endmacro %}
{% macro f(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }} {{ f(1, 3, 4, 5, q=6) }} {{ f(a=7) }} {{ f() }}
{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }} {{ f.name }} {{ f.arguments }} {{ f.catch_kwargs }} {{ f.catch_varargs }} {{ f.caller }}
{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}
{% macro f() %}{{ n }}{% set n2 = 1 %}{% endmacro %}{{ f() }}{{ n2 is defined }} {% set outer = 3 %}{% macro g() %}{{ outer }}{% endmacro %}{{ g() }}
{% macro rec(x) %}{{ x }}{% if x > 0 %}{{ rec(x - 1) }}{% endif %}{% endmacro %}{{ rec(3) }}
{% macro f(a) %}[{{ caller() }}{{ a }}]{% endmacro %}{% call f(1) %}x{{ n }}{% endcall %} {% macro g() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) g() %}{{ a }}{{ b }}{% endcall %} {% call(a, b=5, c=6) g() %}{{ a }}{{ b }}{{ c }}{% endcall %}
{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1, 2]) }} {{ f(**{'a': 3, 'b': 4}) }} {{ f(1, **{'b': 5}) }} {{ f(*(6,), b=7) }}
{% block a %}in {{ n }}{% endblock %} {% block b scoped %}x{% endblock b %} {{ self.a() }}
{% raw %}{{ x }} {% if %}{% endraw %} {%- raw -%} a {%- endraw -%} b
a {# comment {{ x }} #} b {#- c -#} d
  {% if true %}
  x
  {% endif %}
  y
{%- if true -%}  a  {%- endif -%}  b
a {{- ' b ' -}} c {%+ if true +%} d {%+ endif %} e
a
{% set x = 1 %}
b
    {{ n }}  
c
{{ n }}
{% for x in l -%}
    {{ x }}
{%- endfor %}
{% for x in l %}
- {{ x }}
{% endfor %}
end
{% do l.append(1) %}
{% autoescape true %}{{ html }}{% endautoescape %}
{% include 'x' %}
{% import 'x' as y %}
{% from 'x' import y %}
{% extends 'x' %}
{% trans %}a{% endtrans %}
{% debug %}
{% generation %}a{{ n }}{% endgeneration %} b {% for x in l %}{% generation %}{{ x }}{% endgeneration %}{% endfor %}
{{ raise_exception('stop') }}
{{ strftime_now('%Y') | length }} {{ strftime_now('%d %b %Y') | length > 0 }}
{% for message in m %}{% if message['role'] == 'user' %}{{ '<|user|>\n' + (message['content'] if message['content'] is string else message['content'][0]['text']) + '\n' }}{% elif message.tool_calls %}{% for c in message.tool_calls %}{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}{% else %}{{ message.role ~ ': ' ~ message.content | trim }}{% endif %}{% endfor %}
{% set x = m | selectattr('role', 'equalto', 'system') | map(attribute='content') | first %}{{ x }} {% set loop_messages = m[1:] %}{{ loop_messages | length }} {% for i in m[::-1] %}{{ loop.index0 }}{{ i.role[0] }}{% endfor %}
{% set ns = namespace(last=-1) %}{% for x in m %}{% if x.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.last }} {{ (m | length) - 1 - ns.last }}
{% if m[0].role == 'system' and m[0]['content'] %}{% set sys = m[0].content %}{% else %}{% set sys = '' %}{% endif %}{{ sys }}
{%- for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{%- endfor %}
{% set o = joiner(', ') %}{% for x in l %}{{ o() }}{{ x }}{% endfor %} {% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}
{{ range(5)|list }} {{ range(1, 5, 2)|list }} {{ range(5, 0, -2)|list }} {{ range(3)[1] }} {{ range(3)|length }} {{ range(3) }}
{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ dict([('a', 1)]) }} {{ dict(**d).z }}
{{ lipsum(n=1, html=false)|length > 0 }}
{% set x = [1, 2] %}{% set y = x %}{{ x is sameas y }} {% set x = x + [3] %}{{ x }}{{ y }}
{% for k, v in d | dictsort %}{{ k }}{% endfor %} {% for k, v in d | items %}{{ k }}{% endfor %}
{% macro a() -%}  x  {%- endmacro %}[{{ a() }}] {{ a()|length }} {{ a()|upper }} {{ a() ~ 'y' }} {{ a() + 'z' }}
{% if not (n is defined and n is not none) %}a{% else %}b{% endif %} {% if n == 5 and (s or z) and not missing %}c{% endif %}
{% set _ = 1 %}{{ _ }} {% set x_y1 = 2 %}{{ x_y1 }} {% set größe = 3 %}{{ größe }}
{% for x in l %}{% set ns = namespace(v=x) %}{{ ns.v }}{% endfor %} {% for x in [[1, 2], [3]] %}{% for y in x %}{{ loop.index }}{{ y }}{% endfor %};{% endfor %}
{% for x in l %}{{ x }}{% else %}{% endfor %}{% for i in range(0) %}{% else %}no{% endfor %}
{% set x = {'a': 1} %}{% set y = dict(x, b=2) %}{{ y }} {% set z3 = {} %}{{ z3 is mapping }}
{% print(n) %}
{% unknown %}
{% endfor %}
{% if %}{% endif %}
{{ }}
{% for x in l %}
{{ 'a' | nofilter }}
{{ 1 is notest }}
{{ nofunction() }}
{% set x = %}
{{ f(x for x in l) }}
{{ [x for x in l] }}
{{ lambda: 1 }}
{{ l[0] = 1 }}
{{ n.real.__class__ }}
{% macro m(a=1, b) %}{% endmacro %}
{% for loop in l %}{{ loop }}{% endfor %}
{% set loop = 1 %}{{ loop }}
{% break %}
{{ caller() }}
{% block a %}{% endblock %}{% block a %}{% endblock %}
"""


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(form):
    from datetime import datetime
    return datetime.now().strftime(form)


def lines():
    for name, block in (("filter", FILTERS), ("generator", GENERATORS), ("test", TESTS), ("expression", EXPRESSIONS), ("method", METHODS)):
        for line in re.sub(r"\\\n", "\0", block).strip("\n").split("\n"):
            for part in re.split(r"(?<=\}\})\|? (?=\{\{)", line.replace("\0", "\\\n")):
                yield name, part
    whole = ["  {% if true %}\n  x\n  {% endif %}\n  y", "a\n{% set x = 1 %}\nb\n    {{ n }}  \nc\n{{ n }}", "{% for x in l -%}\n    {{ x }}\n{%- endfor %}", "{% for x in l %}\n- {{ x }}\n{% endfor %}\nend"]
    rest = STATEMENTS
    for text in whole:
        assert "\n" + text + "\n" in rest, text
        rest = rest.replace("\n" + text + "\n", "\n", 1)
    for line in rest.strip("\n").split("\n") + whole:
        yield "statement", line


if __name__ == "__main__":
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    cases = []
    for kind, line in lines():
        case = {"kind": kind, "template": line}
        try:
            case["text"] = re.sub("0x[0-9a-f]{8,}", "0x0", env.from_string(line).render(**json.loads(json.dumps(VARS))))
        except Exception as e:
            case["error"] = type(e).__name__
        cases.append(case)
    print(json.dumps({"note": "text computed by Jinja %s with the settings of transformers (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls)" % jinja2.__version__, "vars": VARS, "cases": cases}, ensure_ascii=False, indent=1))
