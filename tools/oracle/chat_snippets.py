"""Snippets of Jinja, one construct each, and a generator of random ones, for chat_templates.py."""

VARIABLES = {
    "n": 7, "z": 0, "f": 2.5, "big": 1e22, "small": 1.5e-7, "neg": -3,
    "s": "Hello World", "t": "  padded\n", "u": "Grüße, Köln 👋🏽", "e": "", "lines": "a\nb\n\nc",
    "yes": True, "no": False, "nil": None,
    "l": [3, 1, 2], "m": ["b", "A", "c", "a"], "nested": [[1, 2], [3, 4]], "none_list": [],
    "d": {"b": 1, "a": "x", "items": "own", "c": None}, "none_dict": {},
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25},
               {"name": "Cid", "age": 30, "tags": []}],
    "quote": "it's \"q\" \\ \t end", "html": "<b>&'\"</b>",
}

SNIPPETS = [
    # white space
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if yes -%}\n  b\n  {%- endif -%}\nc\n\n",
    "  {{ n }}  \n  {{- n -}}  \n x", "a {%+ if yes %} b {%+ endif %} c", "x{% if yes +%}\n y{% endif %}",
    "a\n  {# gone #}\n b", "a {#- gone -#} b", "a {# gone +#}\n b", "{% raw %}{{ n }} {% if %}{% endraw %}x",
    "a\n  {%- raw -%}  {{ x }}\n {%- endraw -%}\n b", "a\n {% raw %}\n b\n {% endraw %}\n c", "\n\n{{ n }}\n\n", "a\r\nb\rc\n",
    "{{ 'a\r\nb' }}", "  {% set x = 1 %}\n{{ x }}", "{{ n }}\n", "{{ n\n}}\n\n", "\t{%- set x=2 %}\u00a0{{- x }}", "{{ '}}' }}{{ {'a':{'b':1}}['a']['b'] }}",
    # literals and escapes
    "{{ 'a' 'b' \"c\" }}", r"{{ 'tab\tnew\nq\'\x41\u00e9\101\q' }}", "{{ 1_000 }} {{ 1e3 }} {{ 1.50 }} {{ 2e-7 }} {{ 12.0e20 }}",
    "{{ [1, 'a', none, true, 2.0] }}", "{{ (1,) }} {{ () }} {{ (1, 2) }}", "{{ {'a': [1], 2: none} }}", "{{ quote }} {{ [quote] }}",
    "{{ ['it\\'s', 'a\"b', '\\n\\u200b\\x7f😀'] }}", "{{ true }} {{ False }} {{ None }} {{ none }}", "{{ 1, 2 }}", "{{ big }} {{ small }} {{ f }} {{ 1e16 }} {{ 123456789.125 }}",
    # arithmetic
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 6 / 3 }} {{ 2 ** 3 ** 2 }} {{ 2 ** -1 }}",
    "{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 + 2.0 }} {{ 0.1 + 0.2 }} {{ -f }} {{ +n }} {{ - n ** 2 }}", "{{ 1 / 0 }}", "{{ n + 's' }}", "{{ 's' + n }}",
    "{{ 'ab' * 3 }} {{ 2 * [1] }} {{ [1] + [2] }} {{ (1,) + (2,) }}", "{{ [1] + (2,) }}", "{{ 1 ~ 'a' ~ none ~ 2.0 ~ missing ~ [1] }}", "{{ true + true }}",
    "{{ '%s-%05.1f-%d-%x-%%' % ('a', 3.14159, 42, 255) }}", "{{ '%s' % l }}", "{{ '%(a)s' % d }}", "{{ '%s %s' % 1 }}",
    # comparison and logic
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ true == 1 }}", "{{ 'a' < 'b' }} {{ 'é' > 'z' }} {{ [1, 2] < [1, 3] }}",
    "{{ 1 < 'a' }}", "{{ 'ell' in s }} {{ 2 in l }} {{ 'b' in d }} {{ 'x' not in d }} {{ not 1 in l }}", "{{ 1 in 'a' }}", "{{ 1 in n }}",
    "{{ 0 or 'x' }} {{ 1 and 2 }} {{ '' or none }} {{ not '' }} {{ not not 3 }}", "{{ missing or 'd' }} {{ missing == missing }} {{ missing in l }} {{ 1 in missing }}",
    "{{ l == [3, 1, 2] }} {{ d == {'a': 'x'} }} {{ (1, 2) == [1, 2] }} {{ none == false }}", "{{ 'a' if yes else 'b' }} {{ 'a' if no }}| {{ 'a' if no else 'b' if no else 'c' }}",
    "{{ 1 if yes if no else 2 }}", "{{ 1 <= 1.0 >= 1 != 2 }}",
    # attributes, items, slices
    "{{ people[0].name }} {{ people.0.name }} {{ people[-1]['age'] }} {{ d.a }} {{ d['zz'] }}|{{ d.zz }}|{{ l[9] }}|", "{{ missing.x }}", "{{ d.zz.y }}", "{{ nil.x }}|{{ n.x }}|{{ s.zzz }}|",
    "{{ d.items() | list }} {{ d['items'] }} {{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 5) }}", "{{ d.keys() }} {{ d.values() }} {{ d.items() }}", "{{ l.append(1) }}", "{{ d.update({'a': 1}) }}", "{{ l.append }}|", "{{ s.__class__ }}|", "{{ s._x }}|",
    "{{ s[1:4] }} {{ s[::-1] }} {{ s[-3:] }} {{ s[:-3] }} {{ s[::2] }} {{ s[10:2:-3] }} {{ u[0:6] }} {{ u[-1] }} {{ u[2] }}", "{{ l[::-1] }} {{ l[1:] }} {{ l[:1] }} {{ l[5:] }} {{ l[-2:] }} {{ (1,2,3)[1:] }}", "{{ l[::0] }}", "{{ s[1:none] }} {{ n[1:] }}|",
    "{{ nested[1][0] }} {{ nested.1.0 }} {{ {'a b': 1}['a b'] }}", "{{ d['a'] ~ d.b }}", "{{ 'abc'[1] }} {{ 'abc'[true] }} {{ [1, 2][false] }}", "{{ {1: 'a', true: 'b', 2.0: 'c'} }}", "{{ people | map(attribute='tags.0') | list | length }}",
    # text methods
    "{{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcba'.lstrip('ab') }}|", "{{ s.upper() }} {{ s.lower() }} {{ 'straße ŉ ﬁ'.upper() }} {{ 'ΑΣ ΑΣΑ İ'.lower() }} {{ \"they're bill's\".title() }} {{ 'hELLO wORLD'.capitalize() }}",
    "{{ s.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b  c d'.split(none, 2) }} {{ ' a  b '.split() }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a1b1c'.split('1', maxsplit=1) }}",
    "{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ lines.splitlines() }} {{ 'a\\r\\nb\\u2028c'.splitlines(true) }}", "{{ 'a'.split('') }}", "{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.startswith('lo', 3) }} {{ s.endswith('lo', 0, 5) }}",
    "{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.index('W') }} {{ u.find('K') }} {{ s.count('l') }} {{ 'aaa'.count('aa') }} {{ 'abc'.count('') }}", "{{ s.index('zz') }}", "{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'ab'.replace('', '-') }} {{ 'ab'.replace('', '-', 2) }}",
    "{{ ', '.join(m) }} {{ '-'.join('abc') }}", "{{ ','.join(l) }}", "{{ '{} {}'.format(1, 'b') }} {{ '{1}{0}{x}{{}}'.format(1, 2, x=3) }}", "{{ '{}'.format() }}", "{{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('x') }}",
    "{{ 'prefix-a'.removeprefix('prefix-') }} {{ 'a.txt'.removesuffix('.txt') }}", "{{ 'abc'.isalpha() }} {{ 'a1'.isalnum() }} {{ '12'.isdigit() }} {{ '²'.isdigit() }} {{ ''.isdigit() }} {{ ' '.isspace() }} {{ 'ab'.islower() }} {{ 'AB1'.isupper() }} {{ '1'.isupper() }}",
    "{{ 'a'.ljust(4) }}|{{ 'a'.rjust(4, '*') }}|{{ '-5'.zfill(4) }}", "{{ l.index(1) }} {{ l.count(3) }} {{ [1].copy() }}", "{{ s.strip(chars='H') }}",
    # filters
    "{{ t | trim }}|{{ 'xax' | trim('x') }}|{{ n | trim }}|{{ missing | trim }}|", "{{ l | length }} {{ s | length }} {{ d | count }} {{ u | length }} {{ missing | length }}", "{{ n | length }}", "{{ m | join(', ') }} {{ m | join }} {{ people | join(', ', attribute='name') }} {{ l | join('-') }}",
    "{{ m | first }} {{ m | last }} {{ s | first }} {{ [] | first }}| {{ d | first }} {{ [] | last }}|", "{{ missing | default('x') }} {{ '' | default('x') }}| {{ '' | default('x', true) }} {{ nil | d('x') }} {{ nil | d('x', boolean=true) }} {{ missing | d }}|",
    "{{ s | upper }} {{ s | lower }} {{ 'hello wOrld' | capitalize }} {{ \"they're bill's (x)-y\" | title }} {{ n | upper }}", "{{ s | replace('o', '0') }} {{ s | replace('o', '0', 1) }} {{ 1234 | replace(2, 'x') }}", "{{ '42' | int }} {{ '4.9' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 3.9 | int }} {{ ' 7 ' | int }} {{ none | int }} {{ 'ff' | int(0, 16) }} {{ true | int }} {{ '1_0' | int }}",
    "{{ '4.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ '1e3' | float }} {{ 'x' | float(1.5) }}", "{{ l | sort }} {{ m | sort }} {{ m | sort(case_sensitive=true) }} {{ l | sort(reverse=true) }} {{ people | sort(attribute='age') | map(attribute='name') | list }}", "{{ [1, 'a'] | sort }}",
    "{{ d | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, 'A': 2} | dictsort(false, 'value', true) }}", "{{ l | reverse | list }} {{ s | reverse }}", "{{ ['a', 'A', 'b', 'a'] | unique | list }} {{ [1, 1.0, true, 2] | unique | list }} {{ ['a', 'A'] | unique(true) | list }}",
    "{{ l | min }} {{ l | max }} {{ l | sum }} {{ people | sum('age') }} {{ [] | max }}| {{ people | max(attribute='age') }}", "{{ -3 | abs }} {{ (-3) | abs }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ 2.9 | round(method='floor') }} {{ 7 | round }}",
    "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}|{{ 'a\nb' | indent('> ') }}|", "{{ '%s %d' | format('a', 3) }} {{ '%(x)s' | format(x=1) }}", "{{ [1, 2, 3] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 0) | list }}", "{{ 'abc' | list }} {{ d | list }} {{ d | items | list }} {{ missing | items | list }}",
    "{{ html | e }} {{ html | escape | safe }} {{ html | safe }} {{ ('<' | safe) + '<' }} {{ '<' + ('>' | safe) }} {{ [html | e] }}", "{{ 3 | string + '1' }} {{ n | string | length }}", "{{ people | map(attribute='name') | join('|') }} {{ people | map(attribute='zz', default='-') | list }} {{ m | map('upper') | list }} {{ m | map('replace', 'a', 'x') | list }} {{ nested | map('first') | list }} {{ nested | map(attribute=1) | list }}",
    "{{ people | selectattr('age', 'equalto', 30) | map(attribute='name') | list }} {{ people | selectattr('tags') | list | length }} {{ people | rejectattr('tags', 'defined') | list | length }} {{ people | selectattr('name', 'in', ['bob']) | list | length }}", "{{ [1, 2, 3, 4] | select('odd') | list }} {{ [0, 1, '', 'a'] | select | list }} {{ [1, 2, 3] | reject('greaterthan', 1) | list }} {{ [1, none] | reject('none') | list }} {{ [1, 2, 3] | select('divisibleby', 3) | list }}",
    "{{ (l | select('odd')) | length }}", "{{ (l | map('string'))[0] }}|", "{% set g = l | map('string') %}{% for x in g %}{{ x }}{% endfor %}-{% for x in g %}{{ x }}{% endfor %}{{ 'T' if g }}", "{{ 'a b_c d-e' | wordcount }}",
    "{{ d | tojson }} {{ u | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ quote | tojson }} {{ html | tojson }} {{ [1.0, 1e22, 1e-7, true, none, 'é\\x7f\\x01'] | tojson }}", "{{ d | tojson(indent=2) }}\n{{ [[], {}, [1]] | tojson(indent=4) }} {{ {'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true) }} {{ d | tojson(separators=(',', ':')) }} {{ [1, [2]] | tojson(indent='\t') }}",
    "{{ {1: 2, none: 3, true: 4, 2.5: 5} | tojson }} {{ (1, 2) | tojson }}", "{{ missing | tojson }}", "{{ l | map('string') | tojson }}", "{{ d.items() | tojson }}", "{{ 'x' | tojson(false, 2) }} {{ [1] | tojson(true, none, (', ', ': ')) }}",
    # tests
    "{{ missing is defined }} {{ n is defined }} {{ missing is undefined }} {{ d.zz is defined }} {{ nil is none }} {{ n is not none }}", "{{ s is string }} {{ n is string }} {{ d is mapping }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ l is sequence }} {{ d is sequence }} {{ s is sequence }} {{ n is sequence }} {{ missing is sequence }} {{ missing is iterable }} {{ d.items() is sequence }}",
    "{{ n is number }} {{ true is number }} {{ f is number }} {{ n is integer }} {{ true is integer }} {{ f is float }} {{ yes is boolean }} {{ n is boolean }} {{ yes is true }} {{ 1 is true }} {{ no is false }} {{ 0 is false }}", "{{ 3 is odd }} {{ 3 is even }} {{ 9 is divisibleby 3 }} {{ 'ab' is lower }} {{ 'AB' is upper }} {{ n is eq 7 }} {{ n is equalto(7) }} {{ n is ne 7 }} {{ n is gt 3 }} {{ n is le(7) }} {{ 1 is in l }} {{ 1 is not in [2] }} {{ 'trim' is filter }} {{ 'zz' is test }} {{ n is sameas none }} {{ nil is sameas none }} {{ range is callable }}",
    "{{ 'a' is string and 1 is number }} {{ not missing is defined }} {{ 1 is odd or x }} {{ (1 is odd) is true }}",
    # statements
    "{% set x = 1 %}{% set y, z2 = 2, 3 %}{{ x }}{{ y }}{{ z2 }}", "{% set x %}a{{ n }}b{% endset %}{{ x | upper }} {% set y | upper | trim %} q {% endset %}{{ y }}", "{% set ns = namespace(a=1) %}{% set ns.b = 2 %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}|{{ ns['a'] }}{{ ns.c is defined }}", "{% set d.x = 1 %}", "{% set ns = namespace({'q': 1}, r=2) %}{{ ns.q }}{{ ns.r }}{% set ns.q, t2 = 5, 6 %}{{ ns.q }}{{ t2 }}{% set ns.block %}x{% endset %}{{ ns.block }}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i + 5 %}{{ x }}{% endfor %}{{ x }}", "{% if no %}a{% elif n == 7 %}b{% else %}c{% endif %}{% if missing %}a{% else %}b{% endif %}", "{% if no %}{% set q = 1 %}{% endif %}{{ q }}|{% if yes %}{% set q = 2 %}{% endif %}{{ q }}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.cycle('a', 'b') }} {% endfor %}{{ loop is defined }}", "{% for x in [] %}a{% else %}none{% endfor %}{% for x in missing %}a{% else %}none{% endfor %}", "{% for x in n %}{% endfor %}", "{% for x in nil %}{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'äb' %}{{ c }}.{% endfor %}", "{% for a, b in nested %}{{ a }}{{ b }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in ['xyz'] %}{% endfor %}",
    "{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.length }}{% if not loop.last %},{% endif %}{% endfor %}", "{% for x in l if x > 9 %}{{ x }}{% else %}e{% endfor %}", "{% for x in range(10) %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% break %}{% else %}quirk{% endfor %}{% for x in l %}{% continue %}{% else %}quirk{% endfor %}{% for x in l %}{% if loop.last %}{% break %}{% endif %}{% else %}no{% endfor %}", "{% break %}", "{% for x in l %}{% for y in l %}{% if y == 1 %}{% break %}{% endif %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for x in [1, 2, 3] if not ns.stop %}{{ x }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %}{% for x in range(5, 0, -2) %}{{ x }}{% endfor %}{{ range(3) | list }}{{ range(2, 4)[1] }}{{ range(3) | length }}", "{{ range(200000) }}", "{% for x in m %}{{ 'c' if loop.changed(x | lower) else '-' }}{% endfor %}", "{% for x in (1, 2), (3, 4) %}{{ x }}{% endfor %}",
    "{% macro m1(a, b=2, c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m1(1) }}{{ m1(1, 3) }}{{ m1(1, c=5) }}{{ m1(b=1, a=2) }}{{ m1() }}", "{% macro m1(a) %}{{ a }}{% endmacro %}{{ m1(1, 2) }}", "{% macro m1(a) %}{{ a }}{% endmacro %}{{ m1(z=2) }}", "{% macro m1() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m1(1, 2, x=3) }}", "{% macro m1(x) %}<{{ caller(x) if caller else 'none' }}>{% endmacro %}{% call(y) m1(4) %}in {{ y }}{% endcall %}{{ m1(1) }}", "{% macro m1() %}x{% endmacro %}{% call m1() %}a{% endcall %}", "{% macro fact(k) %}{{ 1 if k < 2 else k * (fact(k - 1) | int) }}{% endmacro %}{{ fact(6) }}", "{% macro m1() %}{{ q }}{% endmacro %}{% set q = 5 %}{{ m1() }}{% for q in [7] %}{{ m1() }}{% endfor %}", "{% macro m1() %}{% set n = 1 %}{{ n }}{% endmacro %}{{ m1() }}{{ n }}", "{% macro m1() -%}\n  a\n{%- endmacro %}[{{ m1() }}] {{ m1() | upper }} {{ m1() ~ 'b' }}", "{% for i in l %}{% macro m1() %}{{ i }}{% endmacro %}{{ m1() }}{% endfor %}",
    "{% filter upper | trim %} abc {{ s }} {% endfilter %}", "{% with a = 1, b = 2 %}{{ a + b }}{% set c = 3 %}{{ c }}{% endwith %}{{ a }}{{ c }}", "{% with %}x{% endwith %}", "{% generation %}a{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}", "{% print n, s %}", "{% set x = namespace %}{{ x(a=1).a }}", "{{ dict(a=1, b=2) }} {{ dict({'a': 1}, b=3) }}", "{{ raise_exception('no: ' ~ n) }}", "{{ strftime_now('%d %b %Y %H:%M') }}", "{{ strftime_now('') }}|",
    "{{ namespace(a=1) is mapping }} {{ range(2) is sequence }} {{ m | map('upper') is iterable }}", "{% set a = [] %}{% set a = a + [1] %}{% for i in l %}{% set a = a + [i] %}{% endfor %}{{ a }}", "{{ (1, 2) | join(',') }} {{ {'a': 1}.a }} {{ [1, 2].0 }}", "{{ l is defined and l | length > 2 and l[0] == 3 }}", "{{ yes | tojson }} {{ nil | string }} {{ nil | default('x') }} {{ nil ~ '' }}",
    "{% set x = {'a': 1, 'b': {'c': [1, 2]}} %}{{ x.b.c[-1] }}{{ x['b']['c'] | length }}", "{{ none.a.b }}", "{{ missing + 1 }}", "{{ missing ~ 1 }}", "{{ missing() }}", "{{ s() }}", "{{ -missing }}", "{{ missing | upper }}|{{ missing | list }}{{ missing | join }}|", "{{ missing | int }}", "{{ missing[0] }}", "{{ missing < 1 }}", "{{ [missing] }}", "{{ nil | map('upper') | list }}{{ none_list | selectattr('a') | list }}", "{{ nil | list }}", "{{ nil | upper }} {{ nil | trim }} {{ nil | replace('N', 'n') }}", "{{ nil | join }}", "{{ 'é' | capitalize }} {{ 'ǆ' | title }} {{ 'éa ß' | title }}", "{{ [1,2,3,] }} {{ {'a': 1,} }} {{ range(1, 3,) | list }}", "{% if (yes) and (not no) -%} ok {%- endif %}", "{{ 'a' ~ 'b' * 2 }} {{ 1 + 2 ~ 3 }} {{ 2 * 3 ~ 4 }}", "{{ 'x' in ['x'] and 'y' not in ['x'] }}", "{{ s | length > 5 }} {{ s|length + 1 }} {{ 1 + l|length * 2 }}", "{% set x = s.split(' ') | last %}{{ x }}", "{{ ('a' | upper).lower() }} {{ 'a'.upper().lower() | upper }}", "{{ {'x': 1} | length }} {{ not d }} {{ d and 1 }}", "{{ 5 | default(1) }} {{ loop }}|", "{% for x in l %}{{ loop is defined }}{{ loop | length }}{% endfor %}",
]

NAMES = [name for name in VARIABLES] + ["missing"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or"]
FILTERS = ["trim", "length", "upper", "lower", "title", "capitalize", "first", "last", "list", "join(', ')", "string", "int", "float",
           "default('q')", "default('q', true)", "tojson", "tojson(indent=2)", "sort", "reverse|list", "unique|list", "min", "max", "sum",
           "replace('a', 'b')", "map('upper')|list", "select|list", "select('string')|list", "items|list", "dictsort", "round", "abs",
           "indent(2)", "e", "map(attribute='name')|list", "batch(2)|list", "selectattr('age', 'defined')|list", "wordcount", "safe"]
TESTS = ["defined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "lower", "upper", "odd", "even", "eq 7", "in l"]
METHODS = ["strip()", "upper()", "lower()", "title()", "capitalize()", "split()", "split('a')", "split(' ', 1)", "rsplit(none, 1)", "splitlines()", "startswith('H')",
           "endswith('d')", "replace('l', '')", "find('o')", "count('l')", "get('a')", "get('a', 1)", "items()|list", "keys()|list", "values()|list", "isdigit()", "isalpha()",
           "isupper()", "partition(' ')", "join(m)", "index(1)", "format(1)", "zfill(12)", "removeprefix('He')", "lstrip('H')"]
TEXTS = ["'a'", "'Hé 👋'", "''", "'x y'", "'-12'", "'1e3'", "'ΣΑΣ'", "'a\\nb'", "'{}'", "'%s'", "'ßa'"]


def expression(generator, depth):
    pick = generator.random()
    if depth <= 0 or pick < 0.2:
        return generator.choice(NAMES + TEXTS + ["0", "1", "-1", "3", "2.5", "1.0", "true", "none", "[1, 'b']", "(1,)", "{'k': 1}", "()"])
    inner = expression(generator, depth - 1)
    if pick < 0.35:
        return f"({inner} {generator.choice(BINARY)} {expression(generator, depth - 1)})"
    if pick < 0.6:
        return f"({inner})|{generator.choice(FILTERS)}"
    if pick < 0.7:
        return f"(({inner}) is {generator.choice(['', 'not '])}{generator.choice(TESTS)})"
    if pick < 0.85:
        return f"({inner}).{generator.choice(METHODS)}"
    if pick < 0.92:
        start, stop, step = (generator.choice(["", "1", "-1", "2", "-3", "none"]) for _ in range(3))
        return f"({inner})[{start}:{stop}:{step}]" if generator.random() < 0.7 else f"({inner})[{generator.choice(['0', '-1', '1', chr(39) + 'a' + chr(39)])}]"
    if pick < 0.96:
        return f"({inner} if {expression(generator, depth - 1)} else {expression(generator, depth - 1)})"
    return f"[{inner}, {expression(generator, depth - 1)}]"


def block(generator, depth):
    open_tag = lambda: generator.choice(["{%", "{%-", "{%+"])
    close_tag = lambda: generator.choice(["%}", "-%}", "+%}", "%}"])
    space = lambda: generator.choice(["", " ", "\n", "\n  ", "x", "  y\n", "\n\n"])
    tag = lambda text: space() + f"{open_tag()} {text} {close_tag()}" + space()
    inner = lambda: "".join(block(generator, depth - 1) for _ in range(generator.randint(1, 2)))
    pick = generator.random()
    if depth <= 0 or pick < 0.4:
        return space() + generator.choice(["{{", "{{-"]) + " " + expression(generator, 2) + " " + generator.choice(["}}", "-}}"]) + space()
    if pick < 0.5:
        return tag(f"set {generator.choice(['x', 'n', 's', 'q'])} = {expression(generator, 2)}") + "{{ x }}{{ n }}"
    if pick < 0.6:
        return tag(f"if {expression(generator, 2)}") + inner() + tag("else") + inner() + tag("endif")
    if pick < 0.75:
        test = generator.choice(["", "", f" if {expression(generator, 1)}"])
        extra = generator.choice(["", "{{ loop.index }}{{ loop.last }}", "{% if loop.index > 2 %}{% break %}{% endif %}", "{{ loop.nextitem }}{{ loop.previtem }}", "{% if n %}{% continue %}{% endif %}"])
        return tag(f"for x in {generator.choice(['l', 'm', 'people', 'd', 's', 'range(3)', expression(generator, 2)])}{test}") + extra + "{{ x }}" + inner() + tag("else") + "none" + tag("endfor")
    if pick < 0.82:
        return tag("set x") + inner() + tag("endset") + "{{ x }}"
    if pick < 0.9:
        return tag(f"macro mm(a, b={expression(generator, 1)})") + "{{ a }}{{ b }}" + inner() + tag("endmacro") + f"{{{{ mm({expression(generator, 1)}) }}}}{{{{ mm() }}}}"
    if pick < 0.95:
        return space() + generator.choice(["{#", "{#-"]) + " c " + generator.choice(["#}", "-#}", "+#}"]) + space()
    return tag("raw") + " {{ z }} " + tag("endraw")


def random_source(generator):
    return "".join(block(generator, 2) for _ in range(generator.randint(1, 3)))
