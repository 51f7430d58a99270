"""Hostile completions: a hundred and more ways to run code, waste a machine or get an unearned reward.

Pure data, used by `lab.fuzzing.hostile` and by the tests. Those that try to leave a trace try to leave it in a folder
given to them, or at a port of this machine.
"""

from collections.abc import Iterator, Mapping


def answers(folder: str, port: int) -> dict[str, str]:
    """Name -> text. `folder` must stay empty and `port` silent."""
    found = {f"code {k}": text for k, text in enumerate(code(folder, port))}
    for kind, texts in {
        "waste": WASTE,
        "number": NUMBERS,
        "structure": STRUCTURES,
        "text": TEXTS,
        "guess": GUESSES,
    }.items():
        found |= {f"{kind} {k}": text for k, text in enumerate(texts)}
    assert len(set(found.values())) == len(found)
    return found


def code(folder: str, port: int) -> Iterator[str]:
    """Expressions that do something when they are evaluated, for eval and for sympy's parser."""
    imported = "__import__('os')"
    actions = {
        "file": f"open('{folder}/written', 'w').write('x')",
        "touch": f"__import__('pathlib').Path('{folder}/touched').touch()",
        "shell": f"{imported}.system('touch {folder}/shell')",
        "process": f"__import__('subprocess').Popen(['touch', '{folder}/process'])",
        "link": f"{imported}.symlink('/etc/passwd', '{folder}/link')",
        "fork bomb": f"[{imported}.fork() for _ in range(100)]",
        "thread": "__import__('_thread').start_new_thread(print, ())",
        "threads": "[__import__('threading').Thread(target=input).start() for _ in range(99)]",
        "kill parent": f"{imported}.kill({imported}.getppid(), 9)",
        "kill group": f"{imported}.killpg(0, 9)",
        "kill all": f"{imported}.kill(-1, 9)",
        "stop": f"{imported}.kill({imported}.getpid(), 19)",
        "exit": "exit()",
        "leave": f"{imported}._exit(0)",
        "abort": f"{imported}.abort()",
        "system exit": "(_ for _ in ()).throw(SystemExit(0))",
        "interrupt": "(_ for _ in ()).throw(KeyboardInterrupt())",
        "connect": f"__import__('socket').create_connection(('127.0.0.1', {port}), 1)",
        "listen": "__import__('socket').socket().bind(('127.0.0.1', 0))",
        "abstract": "__import__('socket').socket(1).connect(chr(0) + 'x')",
        "exec": f"{imported}.execv('/bin/sh', ['sh', '-c', 'touch {folder}/exec'])",
        "spawn": f"{imported}.spawnlp(0, 'touch', 'touch', '{folder}/spawn')",
        "read": "open('/etc/passwd').read()",
        "environment": f"{imported}.environ['PATH']",
        "memory": "open('/proc/self/mem', 'rb').read(1)",
        "descriptors": f"[{imported}.write(k, b'[[1.0]]') for k in range(20)]",
        "results": f"{imported}.write(3, __import__('struct').pack('<8d', *[1.0] * 8))",
        "close": f"{imported}.closerange(0, 100)",
        "flood": f"[{imported}.write(1, b'x' * 65536) for _ in range(1000)]",
        "print": "print('\\x1b[2J' * 100000)",
        "patch": "[setattr(type(self), 'score_answer', lambda *a: 1.0)]",
        "patch float": "__import__('builtins').__dict__.update(float=lambda *a: 1.0)",
        "patch all": "[setattr(c, 'score_answer', lambda *a: 1.0) for c in object.__subclasses__() if hasattr(c, 'x')]",
        "globals": "globals().update(reward=1.0)",
        "entry": "[entry.update(answer='1')]",
        "alarm": "__import__('signal').setitimer(0, 0.01)",
        "handler": "__import__('signal').signal(24, 1)",
        "limits": "__import__('resource').setrlimit(0, (-1, -1))",
        "trace": "__import__('sys').settrace(lambda *a: 1 / 0)",
        "recursion": "__import__('sys').setrecursionlimit(10**9) or (f := lambda: f()) and f()",
        "segfault": "__import__('ctypes').string_at(0)",
        "call": f"__import__('ctypes').CDLL(None).system(b'touch {folder}/call')",
        "pickle": f"__import__('pickle').loads(b'cos\\nsystem\\n(S\"touch {folder}/pickle\"\\ntR.')",
        "compile": "exec(compile('while 1: pass', '', 'exec'))",
        "classes": "().__class__.__base__.__subclasses__()[-1].__init__.__globals__",
        "shared memory": "__import__('mmap').mmap(-1, 1 << 40)",
        "collector": "__import__('gc').get_objects()",
    }
    yield from actions.values()
    for name in ("file", "patch", "fork bomb", "kill parent"):  # shapes that certain scorers unpack
        yield f"[[{actions[name]}]]"
        yield f"[x for x in [{actions[name]}]] and '1'"
    yield f"Symbol('x').__class__.__init__.__globals__['sys'].modules['os'].system('touch {folder}/sympy')"
    yield f"lambda: 0 or {actions['shell']}"
    yield f"<answer>{actions['shell']}</answer>"


WASTE = (
    "9**9**9**9",
    "10**10**8",
    "2**(2**40)",
    "factorial(10**7)",
    "(1+x)**100000",
    "expand((a+b+c+d+e+f)**60)",
    "[0]*10**10",
    "'a'*10**11",
    "sum(range(10**12))",
    "[x for x in iter(int, 1)]",
    "max(range(10**15))",
    "__import__('time').sleep(10**6)",
    "input()",
    "(lambda f: f(f))(lambda f: f(f))",
    "[" * 4000,
    "(" * 4000 + ")" * 4000,
    "-" * 8000 + "1",
    "~" * 3000 + "x",
    "not " * 2000 + "True",
    "(A" + "&(A" * 2000 + ")" * 2001,
    "1" + "+1" * 4000,
    "{" * 3000 + "}" * 3000,
    '{"a":' * 3000 + "1" + "}" * 3000,
    "R U F " * 2500,
    "R99999999999",
    "F+9999999999",
    "Move disk 1 from Peg 1 to Peg 2\n" * 500,
    "<answer>" * 2000,
    "</answer><answer>" * 900,
    "<answer> " + " " * 16000,
    ",".join(["1"] * 8000),
    "×".join(["2"] * 6000),
    "\n".join("0 " * 60 for _ in range(130)),
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" * 400,
)

NUMBERS = (
    "nan",
    "NaN+NaNj",
    "inf",
    "-inf",
    "1e400",
    "-1e400",
    "1e-400",
    "1e308",
    "infj",
    "9" * 400,
    "9" * 5000,
    "-" + "9" * 4300,
    "0." + "0" * 4000 + "1",
    "1e999999999",
    "1e-999999999999999999",
    "0x1p1023",
    "1_000_000",
    "٣٤",
    "½",
    "-0",
    "0/0",
    "1/0",
    "1/" + "3" * 400,
    "(((nan)))",
    "[NaN, NaN, NaN, NaN, NaN, NaN]",
    "[Infinity, -Infinity]",
    "0xfd+0x0*(1)",
    "6*4*1*1",
    "24*1*1*1",
    "(24)",
    "sNaN",
    "True+True",
    "1e5/1e5",
)

STRUCTURES = (
    "{}",
    "[]",
    "[[]]",
    "[{}]",
    "null",
    "true",
    '""',
    "[null]",
    '{"answer": 1}',
    "[[0,0,0],[0,0,0],[0,0,0]]",
    "[" + ",".join("[" + ",".join(["0"] * 30) + "]" for _ in range(30)) + "]",
    "[" + ",".join("[" + ",".join(["1"] * 30) + "]" for _ in range(30)) + "]",
    '{"0": 1, "1": 2, "2": 3, "3": 1}',
    '[{"agent[0.5, 0.5]": "move(box_red, target_red)"}]',
    '{"a": 1e999}',
    "[1e999]",
    "A=1,B=1,C=1",
    "=,=,=",
    "['a', 1, None, {}, []]",
    "(1, 2)",
    "b'x'",
    "...",
)

TEXTS = (
    "",
    " ",
    "\n\n\n",
    "\x00",
    "1\x00",
    "\x1b[2J\x1b]0;owned\x07",
    "\ud800",
    "\udfff1",
    "\u202e1",
    "\ufeff",
    "e\u0301" * 2000,
    "🙂" * 4000,
    "\r\n" * 5000,
    "I do not know",
    "<answer></answer>",
    "</answer><answer>",
    "../../../etc/passwd",
    "%s%s%s%n",
    "'; DROP TABLE scores; --",
    "${jndi:ldap://127.0.0.1/x}",
    "{0.__class__}",
    "None",
    "a" * 16384,
    "\\frac{1}{0}",
)

GUESSES = (  # rewarded by a scorer that rewards a part
    "0 1 2 3 4 5 6 7 8 9",
    " ".join(map(str, range(400))),
    "yes no",
    "True False",
    "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z",
    "abcdefghijklmnopqrstuvwxyz" * 20,
    "up down left right",
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "\n".join(" ".join(["1"] * 9) for _ in range(9)),
    "\n".join(" ".join(["0"] * 9) for _ in range(9)),
    "_ _ _ _\n" * 4,
    "(A ∨ ¬A)",
    "(A → A)",
    "P | ~P",
    "1 day",
    "00:00",
    "0 days, 00:00",
    "x",
    "C",
    "0 + C",
    "The answer is one of these: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12",
)


def counts() -> Mapping[str, int]:
    """How many there are of each kind."""
    kinds = [name.split()[0] for name in answers("/nowhere", 1)]
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
